"""b-CapScore against `statistics.harmonic_mean` as run by the writer of the cases; the paper has no public code."""

import json
from pathlib import Path

import pytest

from rubricworks.metrics import b_capscore

CASES = json.loads((Path(__file__).parent / "data" / "i_misc.json").read_text())["bcapscore"]


@pytest.mark.parametrize("case", CASES)
def test_b_capscore(case):
    assert b_capscore(case["p"], case["r"], case["l"]) == pytest.approx(case["expected"], abs=1e-12)
