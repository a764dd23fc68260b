"""Every claim's number, worked out by hand from the figures that a run's folder holds."""

import pytest
from claimed_runs import GENRM, MACROS, RATES, write_run

from rubricworks.errors import UserError
from rubricworks.methods.rlr3.claims import PAPER


@pytest.fixture
def numbers(tmp_path):
    """Claim → its number in a single run with these figures."""

    def of(**figures):
        run = write_run(tmp_path / "run", **figures)
        return {finding.claim.name: finding.values[1] for finding in PAPER.findings({1: run})}

    return of


BY_HAND = {
    # Table 2: best 0.58 against 0.50, last 0.58 against 0.46.
    "macro-best": 0.08,
    "macro-last": 0.12,
    # Figure 2: the middle of 60 steps is milestone 20; 0.58 - 0.42 against 0.46 - 0.40.
    "second-half": 0.10,
    "stays-at-best": 0.04,
    # Table 4.
    "sft-repairs-schema_accuracy": 0.095,
    "sft-repairs-criterion": 0.595,
    "sft-repairs-execution": 0.595,
    "sft-reaches-schema_accuracy": -0.005,
    "sft-reaches-criterion": -0.005,
    "sft-reaches-execution": -0.005,
    "sft-over-base": 0.54,
    "rlvr-keeps-sft": 0.01,
    "rlvr-over-sft-arguments": 0.0,
    "rlvr-over-sft-credit": 0.03,
    "rlvr-over-sft-criterion_level": 0.01,
    "rlvr-over-sft-sample_level": 0.0,
    # Table 5; the default's mean rate is 0.1, that of the others 0.15, 0.2 and 0.2.
    "regular-image": -0.01,
    "regular-targets": 0.01,
    "regular-unverified": -0.05,
    "lowest-against-image": 0.05,
    "lowest-against-targets": 0.10,
    "lowest-against-unverified": 0.10,
    "image-no_final_answer": 0.2,
    "image-wrong_but_plausible": 0.1,
    "targets-no_final_answer": 0.1,
    "targets-wrong_but_plausible": 0.0,
    "targets-adversarial": 0.2,
    "unverified-no_final_answer": 0.0,
    "unverified-adversarial": 0.1,
    # No group was drawn.
    "remapping-spreads": None,
    "gate-unmasks": None,
}


def test_every_claim_has_the_number_that_its_words_say(numbers):
    result = numbers()
    assert result.keys() == BY_HAND.keys()
    assert result == {name: value if value is None else pytest.approx(value) for name, value in BY_HAND.items()}


def test_middle_milestone_is_the_last_one_in_the_first_half(numbers):
    steps = {20: 0.1, 40: 0.2, 60: 0.4, 80: 0.5, 100: 0.6}
    assert numbers(macros=MACROS | {"rlvr": steps, "rlr3": steps | {40: 0.3}})["second-half"] == pytest.approx(-0.1)


def test_arm_with_no_milestone_in_the_first_half_has_no_number(numbers):
    assert numbers(macros=MACROS | {"rlvr": {100: 0.5}})["second-half"] is None


def test_figure_of_nothing_is_no_number(numbers):
    genrm = GENRM | {"sft": GENRM["sft"] | {"credit": None}}
    rates = RATES | {"image": RATES["image"] | {"adversarial": None}}
    result = numbers(genrm=genrm, rates={name: modes for name, modes in rates.items() if name != "targets"})
    assert result["rlvr-over-sft-credit"] is None
    assert result["lowest-against-image"] is None
    assert result["image-no_final_answer"] == pytest.approx(0.2)
    assert result["regular-targets"] is None


def test_groups_of_the_training_are_read_from_its_scorecards(tmp_path):
    # Both responses of a pair meet one criterion and fail the other: 0.75 without the gate for the failing one.
    run = write_run(tmp_path / "run", pairs=[((0, 1), (1, 0))] * 20)
    findings = {finding.claim.name: finding for finding in PAPER.findings({1: run})}
    assert findings["gate-unmasks"].values == {1: 1.0}
    assert "20 failures: 20 reinforced without the gate, 0 with it" in findings["gate-unmasks"].notes[1]
    assert "only 0 such criteria" in findings["remapping-spreads"].notes[1]


def test_verdicts_are_over_the_seeds(tmp_path):
    best = {1: 0.60, 2: 0.61, 3: 0.62}
    runs = {
        seed: write_run(tmp_path / f"seed-{seed}", seed=seed, macros=MACROS | {"rlr3": {30: 0.4, 60: value}})
        for seed, value in best.items()
    }
    findings = {finding.claim.name: finding for finding in PAPER.findings(runs)}
    # 0.10, 0.11, 0.12 over RLVR's best: 0.11 -+ 4.302653 * 0.01 / sqrt(3).
    assert findings["macro-best"].values == pytest.approx({1: 0.10, 2: 0.11, 3: 0.12})
    assert (findings["macro-best"].low, findings["macro-best"].high) == pytest.approx((0.085159, 0.134841), abs=1e-6)
    assert findings["macro-best"].verdict == "holds"
    assert findings["regular-unverified"].verdict == "does not hold"
    assert findings["remapping-spreads"].verdict == "not measured"


def damage(run, how):
    if how == "unfinished":
        (run / "audit" / "done.json").unlink()
    elif how == "missing":
        (run / "audit" / "audit.json").unlink()
    elif how == "empty":
        (run / "train_genrm" / "genrm.json").write_text("")
    elif how == "other":
        (run / "score" / "scores.json").write_text('{"base": 3}')
    elif how == "recipe":
        (run / "recipe.yaml").unlink()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("unfinished", "the stage audit has not finished"),
        ("missing", r"audit\.json: missing or empty; run the stage audit again"),
        ("empty", r"genrm\.json: missing or empty"),
        ("other", r"scores\.json: .*run the stage score again"),
        ("recipe", "no run here"),
    ],
)
def test_damaged_run_is_refused_with_the_place(tmp_path, how, message):
    run = write_run(tmp_path / "run", pairs=[((0, 1), (1, 0))])
    damage(run, how)
    with pytest.raises(UserError, match=message):
        PAPER.findings({1: run})


def test_arm_or_model_that_was_not_measured_is_refused(tmp_path):
    with pytest.raises(UserError, match="no milestones of rlr3"):
        PAPER.findings({1: write_run(tmp_path / "arm", macros={"base": 0.3, "rlvr": {20: 0.4}})})
    with pytest.raises(UserError, match="no figures of sft"):
        PAPER.findings({1: write_run(tmp_path / "model", genrm={"base": GENRM["base"], "rlvr": GENRM["rlvr"]})})


def test_scorecards_that_are_not_whole_groups_are_refused(tmp_path):
    run = write_run(tmp_path / "run", settings=["policy.algorithm.rollouts.group_size=4"], pairs=[((0, 1), (1, 0))])
    with pytest.raises(UserError, match=r"step 1: .* not one group of 4"):
        PAPER.findings({1: run})
