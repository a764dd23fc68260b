"""Rank correlations against scipy's, as run by the writer of the cases."""

import json
from pathlib import Path

import pytest

from rubricworks.metrics import kendall_tau_b, spearman

CASES = json.loads((Path(__file__).parent / "data" / "i_misc.json").read_text())["rank_correlation"]


@pytest.mark.parametrize("case", CASES)
def test_spearman(case):
    assert spearman(case["a"], case["b"]) == pytest.approx(case["spearman"], abs=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_kendall_tau_b(case):
    assert kendall_tau_b(case["a"], case["b"]) == pytest.approx(case["kendall_tau_b"], abs=1e-12)
