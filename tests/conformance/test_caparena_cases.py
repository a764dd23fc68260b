"""CapArena's scores, ratings and agreement against those of the authors' code, run on synthetic battles."""

import json
import re
from pathlib import Path

import pytest

from rubricworks.metrics import (
    caparena_auto,
    caption_level_agreement,
    elo_bootstrap,
    elo_mle,
    elo_online,
    model_level_agreement,
)

CASES = json.loads((Path(__file__).parent / "data" / "f_caparena.json").read_text())
ELO = pytest.mark.parametrize("case", CASES["elo_cases"], ids=lambda case: f"{len(case['battles'])}")
RESAMPLED = [case for case in CASES["elo_cases"] if "bootstrap_printed" in case["expected"]]


@pytest.mark.parametrize("case", CASES["auto_cases"], ids=lambda case: case["name"])
def test_scores_against_the_three_baselines(case):
    assert caparena_auto(case["battles"]) == case["expected"]


@ELO
def test_online_ratings(case):
    ratings = elo_online(case["battles"])
    assert ratings == pytest.approx(case["expected"]["online_elo_K4"], rel=1e-12)
    assert list(ratings) == list(case["expected"]["online_elo_K4"])


@ELO
def test_maximum_likelihood_ratings(case):
    ratings = elo_mle(case["battles"])
    assert ratings == pytest.approx(case["expected"]["mle_elo_sklearn_default_L2"], rel=1e-9)
    assert list(ratings) == list(case["expected"]["mle_elo_sklearn_default_L2"])


@pytest.mark.parametrize("case", RESAMPLED, ids=lambda case: f"{len(case['battles'])}")
def test_medians_of_resampled_ratings(case):
    medians = {model: int(rating.value + 0.5) for model, rating in elo_bootstrap(case["battles"]).items()}
    printed = re.findall(r"^\d+ +(\S+) +(\d+)$", case["expected"]["bootstrap_printed"], re.MULTILINE)
    assert list(medians) == case["expected"]["bootstrap1000_seed42_order"]
    assert list(medians.items()) == [(model, int(rating)) for model, rating in printed]


@pytest.mark.parametrize("case", CASES["agreement_cases"], ids=lambda case: f"{len(case['order'])}")
def test_agreement_with_the_human_ranking(case):
    expected = {"spearman": case["spearman"], "kendall": case["kendall"]}
    assert model_level_agreement(case["order"]) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("case", CASES["caption_agreement_cases"], ids=lambda case: f"{len(case['items'])}")
@pytest.mark.parametrize("in_400", [False, True])
@pytest.mark.parametrize("include_tie", [False, True])
def test_agreement_with_the_human_verdicts(case, include_tie, in_400):
    levels = caption_level_agreement(case["items"], include_tie=include_tie, in_400=in_400)
    shares = ", ".join(
        f"{name.capitalize()}: {row['agreement'] if row['agreement'] is None else format(row['agreement'], '.3f')} "
        f"({row['battles']})"
        for name, row in levels.items()
    )
    ties = ", ".join(f"{name.capitalize()}: {row['ties']}" for name, row in levels.items() if name != "overall")
    expected = case["expected_printed"][f"include_tie={include_tie},in_400={in_400}"]
    assert [shares, ties][: len(expected)] == expected
