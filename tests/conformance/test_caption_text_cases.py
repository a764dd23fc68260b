"""BLEU, ROUGE-L and METEOR of captions against pycocoevalcap as run by the writer of the cases.

CIDEr's n-gram weights come from all images that the writer ran it on, of which the file holds a part: its values cannot
be had from these cases. `tests/metrics/test_coco.py` computes CIDEr by its definition, and the corpus of one case.
"""

import json
from pathlib import Path

import pytest

from rubricworks.metrics import coco_caption_scores

CASES = json.loads((Path(__file__).parent / "data" / "e_text_metrics.json").read_text())["cases"]
MARKS = "marks"
CANDIDATES = {case["id"]: case["cand"] for case in CASES} | {MARKS: "A boat, red!"}
REFERENCES = {case["id"]: case["refs"] for case in CASES} | {MARKS: ["a boat red"]}
PER_CAPTION = ("Bleu_1", "Bleu_4", "ROUGE_L", "METEOR")


@pytest.fixture(scope="module")
def scores(java) -> dict[bool, dict[str, dict[str, float]]]:
    """With the PTB tokeniser and without; METEOR takes seven seconds to start."""
    return {ptb: coco_caption_scores(CANDIDATES, REFERENCES, ptb=ptb) for ptb in (True, False)}


@pytest.mark.slow
@pytest.mark.parametrize(("ptb", "variant"), [(True, "pycocoevalcap_ptb"), (False, "pycocoevalcap_no_ptb_lower")])
def test_scores_of_each_caption(scores, ptb, variant):
    for case in CASES:
        expected = {name: case[variant][name] for name in PER_CAPTION}
        assert {name: scores[ptb][case["id"]][name] for name in PER_CAPTION} == pytest.approx(expected, abs=1e-12)


@pytest.mark.slow
def test_tokeniser_separates_what_lower_case_leaves_together(scores):
    assert scores[True][MARKS]["ROUGE_L"] == pytest.approx(1)
    assert scores[False][MARKS]["ROUGE_L"] < 0.7
