"""b-CapScore: precision, recall and language quality of a caption in one number (BalCapRL, equation A.1).

The score is per caption, and the benchmark's figure is its mean. Precision comes from the evaluation prompt's looser
test, where visible evidence justifies a claim (appendix A.4); linguistic is not gated by length.
"""

import statistics


def b_capscore(precision: float, recall: float, linguistic: float) -> float:
    """3 / (1/precision + 1/recall + 1/linguistic), in [0, 1]; 0 if any of them is 0.

    Raises:
        ValueError: one lies outside [0, 1] or is missing: leave the caption out of the average.
    """
    parts = {"precision": precision, "recall": recall, "linguistic": linguistic}
    for name, value in parts.items():
        if value is None or not 0 <= value <= 1:
            raise ValueError(f"{name} is {value}; b-CapScore takes numbers between 0 and 1")
    return float(statistics.harmonic_mean(parts.values()))
