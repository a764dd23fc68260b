"""BLEU, ROUGE-L and METEOR of captions against pycocoevalcap as run by the writer of the cases.

CIDEr's n-gram weights come from all images that the writer ran it on, of which the file holds a part: its values cannot
be had from these cases. `tests/metrics/test_coco.py` computes CIDEr by its definition.
"""

import json
from pathlib import Path

import pytest

from rubricworks.metrics import coco_caption_scores, coco_scores

CASES = json.loads((Path(__file__).parent / "data" / "e_text_metrics.json").read_text())["cases"]
CANDIDATES = {case["id"]: case["cand"] for case in CASES}
REFERENCES = {case["id"]: case["refs"] for case in CASES}
PER_CAPTION = ("Bleu_1", "Bleu_4", "ROUGE_L", "METEOR")


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize(("ptb", "variant"), [(True, "pycocoevalcap_ptb"), (False, "pycocoevalcap_no_ptb_lower")])
def test_scores_of_each_caption(ptb, variant):
    scores = coco_caption_scores(CANDIDATES, REFERENCES, ptb=ptb)
    for case in CASES:
        expected = {name: case[variant][name] for name in PER_CAPTION}
        assert {name: scores[case["id"]][name] for name in PER_CAPTION} == pytest.approx(expected, abs=1e-12)


@pytest.mark.usefixtures("java")
def test_corpus_of_one_caption_has_the_scores_of_that_caption():
    case = CASES[4]
    scores = coco_scores({"only": case["cand"]}, {"only": case["refs"]})
    expected = {name: case["pycocoevalcap_ptb"][name] for name in PER_CAPTION}
    assert {name: scores[name] for name in PER_CAPTION} == pytest.approx(expected, abs=1e-12)
