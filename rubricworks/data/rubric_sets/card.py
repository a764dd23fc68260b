"""Dataset card of a rubric set: what its criteria are like, and how to train and grade with it."""

from collections import Counter
from collections.abc import Sequence
from statistics import fmean

import yaml

from rubricworks.data.rubric_sets.entries import RubricEntry

DATA_FILE = "data/train.parquet"
"""Place of the rubrics' table in the repository."""
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


def rubric_set_card(entries: Sequence[RubricEntry], name: str) -> str:
    """Text of `README.md`.

    Args:
        name: name of the repository.
    """
    rubrics = [entry.rubric for entry in entries]
    criteria = [criterion for rubric in rubrics for criterion in rubric.criteria]
    size = next((label for limit, label in _SIZES if len(rubrics) < limit), "n>1M")
    metadata = {
        "tags": ["rubricworks", "rubrics", "reinforcement-learning"],
        "size_categories": [size],
        "configs": [{"config_name": "default", "data_files": [{"split": "train", "path": DATA_FILE}]}],
    }
    kinds = {
        "rubrics": len(rubrics),
        "with a prompt": sum(bool(entry.prompt) for entry in entries),
        "with a reference answer": sum(bool(entry.reference) for entry in entries),
        "criteria": len(criteria),
        "pitfalls (negative weight)": sum(criterion.weight < 0 for criterion in criteria),
        "not essential": sum(not criterion.essential for criterion in criteria),
        "checked by a verifier": sum(criterion.verifier is not None for criterion in criteria),
    }
    weights = Counter(criterion.weight for criterion in criteria).most_common(8)
    mean = fmean(len(rubric.criteria) for rubric in rubrics)
    lines = [f"# {name}", "", f"Weighted criteria by which responses are graded, {mean:.1f} a sample on average."]
    lines += ["", "| | count |", "|---|---|", *(f"| {kind} | {count:,} |" for kind, count in kinds.items()), ""]
    lines += ["| weight | criteria |", "|---|---|", *(f"| {weight:+g} | {count:,} |" for weight, count in weights), ""]
    lines += [
        "Columns: `sample_id`, `rubric` (JSON: `criteria` with `criterion`, `evaluation_rule`, `weight`, …), "
        "`prompt`, `reference`, `extras`. A negative weight takes away where the criterion is met. A response that no "
        "judge could grade has no reward, never 0.",
        "",
        "```sh",
        f"rubricworks rubrics import {name}@COMMIT --out rubrics.parquet",
        f"rubricworks rubrics show {name}@COMMIT",
        "```",
        "",
        "```python",
        "from rubricworks.adapters.trl_spec import RubricSpec",
        "",
        f'spec = RubricSpec("{name}@COMMIT", Grader(judge, subject="answer"))',
        "trainer = GRPOTrainer(..., train_dataset=spec.train_dataset, reward_funcs=spec.reward_funcs)",
        "```",
        "",
    ]
    front = yaml.safe_dump(metadata, sort_keys=False)
    return f"---\n{front}---\n\n" + "\n".join(lines)
