"""Every claim on BalCapRL, worked out by hand from the figures that runs and arms hold."""

import pytest
from claimed_captions import BASE, PLAIN, REFERENCE, REMARK, RUNS, write_captions, write_seed
from scipy.stats import spearmanr

from rubricworks.errors import UserError
from rubricworks.methods.balcaprl.claims import ARMS, PAPER, commentary_share
from rubricworks.recipe.files import load_recipe, recipe_path


def numbers(run):
    return {finding.claim.name: finding.values[1] for finding in PAPER.findings({1: run})}


def ranks_models() -> float:
    """Difference of two rank correlations by scipy, over the base model, the recipe's own run and every arm."""
    models = [(BASE["dc_score"], BASE["b_capscore"], BASE["oracle_f1"])]
    models += [(dc, balance, truth) for dc, _, _, _, balance, truth in RUNS.values()]
    detailed, balanced, truth = zip(*models, strict=True)
    return spearmanr(balanced, truth).statistic - spearmanr(detailed, truth).statistic


BY_HAND = {
    # Table 1: the recipe's own run against the base model.
    "improves-dc": 0.50 - 0.40,
    "improves-qa": 0.56 - 0.50,
    "improves-arena": 0.70 - 0.50,
    "improves-balance": 0.55 - 0.45,
    # Table 2.
    "sft-forgets": 0.30 - 0.11,
    "balcaprl-keeps": 0.32 - 0.30,
    # Table 3: against `full`.
    "cgdpo-dc": 0.52 - 0.42,
    "cgdpo-qa": 0.55 - 0.51,
    "cgdpo-arena": 0.65 - 0.45,
    "precision-dc": 0.52 - 0.44,
    "precision-arena": 0.64 - 0.65,
    "linguistic-dc": 0.53 - 0.52,
    "linguistic-qa": 0.58 - 0.55,
    "linguistic-length": 60.0 - 36.0,
    "linguistic-arena": 0.65 - 0.30,
    "pointability-dc": 0.52 - 0.41,
    "pointability-qa": 0.55 - 0.49,
    "pointability-arena": 0.65 - 0.35,
    "references-dc": 0.51 - 0.47,
    "references-qa": 0.53 - 0.52,
    # Three of four captions remark on the picture, with pointability one.
    "pointability-commentary": 0.75 - 0.25,
    # Table 4.
    "no-length-is-short": 30.0 - 22.0,
    "no-length-dc": 0.52 - 0.43,
    "lower-bound": 44.0 - 23.0,
    "upper-bound-2-1": 36.0 - 26.0,
    "upper-bound-3-2": 44.0 - 36.0,
    "gate-over-linear": 0.56 - 0.53,
    # Table 5.
    "ranks-models": ranks_models(),
    # Table 7.
    "judge-mini-dc": 0.49 - 0.40,
    "judge-mini-qa": 0.53 - 0.50,
    "judge-mini-arena": 0.62 - 0.50,
    "judge-strong-dc": 0.505 - 0.40,
    "judge-strong-qa": 0.57 - 0.50,
    "judge-strong-arena": 0.72 - 0.50,
}


@pytest.mark.slow
def test_every_claim_has_the_number_that_its_words_say(tmp_path):
    result = numbers(write_seed(tmp_path))
    assert list(result) == list(BY_HAND)
    assert result == {name: pytest.approx(value) for name, value in BY_HAND.items()}
    assert abs(BY_HAND["ranks-models"]) > 0.01  # or the case would say nothing


def test_each_claim_compares_runs_that_differ_in_one_thing():
    arms = load_recipe(recipe_path("balcaprl-laptop")).arms
    assert set(ARMS) <= arms.keys()
    equal = arms["full"]
    for arm in set(ARMS) - {"full", "sft", "judge_mini", "judge_strong", "gate_0_3", "gate_05_1", "gate_05_3"}:
        changed = {field for field, value in (equal | arms[arm]).items() if equal.get(field, "unset") != value}
        assert len(changed) == 1, arm
    assert {field: value for field, value in arms["gate_05_3"].items() if field not in equal} == {
        "policy.reward.length.upper": 3
    }
    assert set(arms["gate_0_3"].items()) - set(arms["gate_05_3"].items()) == {("policy.reward.length.lower", 0)}


@pytest.mark.slow
def test_verdicts_are_over_the_seeds(tmp_path):
    runs = {
        seed: write_seed(tmp_path, seed, own={"dc_score": dc}, no_precision={"arena_win": win})
        for seed, dc, win in ((1, 0.50, 0.60), (2, 0.51, 0.62), (3, 0.52, 0.70))
    }
    findings = {finding.claim.name: finding for finding in PAPER.findings(runs)}
    # 0.10, 0.11, 0.12 over the base: 0.11 -+ 4.302653 * 0.01 / sqrt(3).
    assert findings["improves-dc"].values == pytest.approx({1: 0.10, 2: 0.11, 3: 0.12})
    assert (findings["improves-dc"].low, findings["improves-dc"].high) == pytest.approx((0.085159, 0.134841), abs=1e-6)
    assert findings["improves-dc"].verdict == "holds"
    assert findings["precision-arena"].margin == 0.05
    assert findings["precision-arena"].verdict == "inconclusive"
    assert findings["references-qa"].verdict == "holds"  # 0.01 with every seed


@pytest.mark.slow
def test_what_was_not_judged_has_no_number_and_says_so(tmp_path):
    run = write_seed(tmp_path, full={"arena_win": None, "b_capscore": None})
    findings = {finding.claim.name: finding for finding in PAPER.findings({1: run})}
    assert findings["cgdpo-arena"].values[1] is None
    assert "no caption of full was judged (arena_win)" in findings["cgdpo-arena"].notes[1]
    assert findings["ranks-models"].values[1] is None
    assert findings["cgdpo-dc"].values[1] == pytest.approx(0.10)


def test_commentary_is_a_sentence_that_names_nothing_of_any_reference():
    references = [REFERENCE, "at left two small blue squares ."]
    shares = {
        PLAIN: 0,
        REMARK: 1,
        "one feels invited to look closer .": 1,
        "the colours contrast nicely . the word DOG is written at the bottom .": 1,
        "at left a blue square !": 0,  # of another image, and false here: still something to point to
        "": 0,
        " . .": 0,
    }
    for caption, share in shares.items():
        assert commentary_share([caption], references) == share, caption
    assert commentary_share(list(shares), references) == pytest.approx(3 / 7)
    assert commentary_share([PLAIN], []) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("arm", r"seed-1-no_recall: there is no run here"),
        ("unfinished", r"seed-1-linear: the stage score has not finished"),
        ("absent", r"scores\.json: missing; run the stage score again"),
        ("other", r"scores\.json: base: Field required; delete .*score and run the stage score again"),
    ],
)
def test_damaged_run_is_refused_with_the_place(tmp_path, how, message):
    run = write_seed(tmp_path)
    if how == "arm":
        (tmp_path / "seed-1-no_recall" / "recipe.yaml").unlink()
    elif how == "unfinished":
        (tmp_path / "seed-1-linear" / "score" / "done.json").unlink()
    elif how == "absent":
        (tmp_path / "seed-1-full" / "score" / "scores.json").unlink()
    else:
        (tmp_path / "seed-1-full" / "score" / "scores.json").write_text('{"models": 3}')
    with pytest.raises(UserError, match=message):
        PAPER.findings({1: run})


def test_run_of_another_pipeline_is_refused(tmp_path):
    run = write_captions(tmp_path / "seed-1")
    (run / "recipe.yaml").write_text(recipe_path("quickstart").read_text())
    with pytest.raises(UserError, match="a recipe of the pipeline rubicap, not of balcaprl"):
        PAPER.findings({1: run})
