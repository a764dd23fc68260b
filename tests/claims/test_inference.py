"""Verdicts on pre-registered claims: p-values against scipy, error rates by simulation, and what is no verdict."""

from itertools import product

import numpy as np
import pytest

from rubricworks.claims.inference import blinded_seeds, evidence, judge_claims, planned_seeds, seed_difference
from rubricworks.claims.registration import Blinded, Claim, Registration
from rubricworks.errors import UserError

stats = pytest.importorskip("scipy.stats")
SEEDS = 16


def claim(name="better", direction="greater", **fields):
    return Claim(
        id=name, source="Table 1", says="One is better", arms=("new", "old"), metric="f1", direction=direction, **fields
    )


def registered(*claims, **fields):
    return Registration(paper="P", recipe="r", seeds=SEEDS, margin=0.03, claims=claims, **fields)


def scores(*differences, samples=4):
    """Seed → scores of two arms that differ by these numbers in the mean over samples."""
    spread = np.linspace(-0.1, 0.1, samples)
    return {
        seed: {
            "new": {"f1": {f"s{at}": 0.5 + value + more for at, more in enumerate(spread)}},
            "old": {"f1": {f"s{at}": 0.5 for at in range(samples)}},
        }
        for seed, value in enumerate(differences, start=1)
    }


def verdicts(registration, results, **options):
    return [finding.verdict for finding in judge_claims(registration, results, range(1, SEEDS + 1), **options)]


@pytest.mark.parametrize("shift", [-0.05, -0.02, 0.0, 0.004, 0.03, 0.2])
@pytest.mark.parametrize("seeds", [3, 8, 16])
def test_p_values_are_those_of_scipys_one_sample_t_tests(shift, seeds):
    values = list(np.random.default_rng(seeds).normal(shift, 0.03, seeds).round(9))

    def p_value(bound, side):
        return stats.ttest_1samp(values, bound, alternative=side).pvalue

    equivalent = max(p_value(-0.03, "greater"), p_value(0.03, "less"))
    greater = evidence(values, "greater", 0.03)
    assert greater == pytest.approx((p_value(0, "greater"), p_value(0, "less"), equivalent), abs=1e-9)
    assert evidence(values, "smaller", 0.03) == pytest.approx((greater[1], greater[0], equivalent), abs=1e-9)
    beyond = min(p_value(0.03, "greater"), p_value(-0.03, "less"))
    assert evidence(values, "equivalent", 0.03) == pytest.approx((equivalent, beyond, equivalent), abs=1e-9)


def test_differences_without_spread_are_worth_their_sign_flips():
    for seeds in (2, 5, 9):
        as_extreme = sum(sum(signs) >= seeds for signs in product((-1, 1), repeat=seeds)) / 2**seeds
        assert evidence([0.1] * seeds, "greater", 0.03).claimed == as_extreme
        assert evidence([0.0] * seeds, "equivalent", 0.03).claimed == as_extreme
        assert evidence([0.0] * seeds, "greater", 0.03).claimed == 0.5


NULLS = [
    # direction, mean of the differences, the verdict that would be an error there, claims of the paper
    ("greater", 0.0, "holds", 1),
    ("greater", 0.0, "holds", 12),
    ("greater", 0.0, "does not hold", 1),
    ("smaller", 0.0, "holds", 1),
    ("greater", 0.03, "equivalent", 1),
    ("equivalent", 0.03, "holds", 1),
    ("equivalent", -0.03, "does not hold", 6),
]


@pytest.mark.parametrize(("direction", "mean", "error", "claims"), NULLS)
def test_any_false_verdict_among_a_papers_claims_is_at_most_2_5_percent(direction, mean, error, claims):
    repetitions, errors = 400, 0
    random = np.random.default_rng([claims, *map(ord, direction + error)])
    registration = registered(*(claim(f"c{at}", direction).model_copy(update={"metric": f"m{at}"})
                                for at in range(claims)))  # fmt: skip
    for _ in range(repetitions):
        # Samples share a seed's luck: were they the units, nearly every repetition would err.
        seeds = random.normal(mean, 0.03, (SEEDS, claims))
        results = {
            seed: {
                "new": {f"m{at}": {"a": value + 0.01, "b": value - 0.01} for at, value in enumerate(row)},
                "old": {f"m{at}": {"a": 0.0, "b": 0.0} for at in range(claims)},
            }
            for seed, row in enumerate(seeds, start=1)
        }
        errors += error in verdicts(registration, results)
    assert stats.binomtest(errors, repetitions, 0.025, alternative="greater").pvalue > 0.001, errors


def test_verdicts_say_which_side_the_numbers_are_on():
    noise = np.linspace(-0.01, 0.01, SEEDS)
    for direction, shift, verdict in [
        ("greater", 0.05, "holds"),
        ("greater", -0.05, "does not hold"),
        ("smaller", -0.05, "holds"),
        ("smaller", 0.05, "does not hold"),
        ("greater", 0.0, "equivalent"),
        ("equivalent", 0.0, "holds"),
        ("equivalent", 0.05, "does not hold"),
    ]:
        [finding] = judge_claims(registered(claim(direction=direction)), scores(*(noise + shift)), range(1, SEEDS + 1))
        assert (direction, shift, finding.verdict) == (direction, shift, verdict)
        assert finding.mean == pytest.approx(shift)
    wide = np.linspace(-0.3, 0.3, SEEDS)
    assert verdicts(registered(claim()), scores(*wide)) == ["inconclusive"]
    assert verdicts(registered(claim(margin=0.5)), scores(*wide)) == ["equivalent"]


def test_interval_is_student_t_of_the_seeds_and_not_of_their_samples():
    values = np.random.default_rng(1).normal(0.1, 0.05, SEEDS)
    [finding] = judge_claims(registered(claim()), scores(*values, samples=200), range(1, SEEDS + 1))
    low, high = stats.t.interval(0.95, SEEDS - 1, values.mean(), stats.sem(values))
    assert (finding.low, finding.high) == pytest.approx((low, high))


def test_holm_counts_every_registered_claim_also_those_without_a_number():
    values = 0.02 + np.linspace(-0.05, 0.05, SEEDS)
    raw = stats.ttest_1samp(values, 0, alternative="greater").pvalue
    assert 0.0025 < raw < 0.025
    assert verdicts(registered(claim()), scores(*values)) == ["holds"]
    unrun = [claim(f"c{at}", cannot_run="needs a GPU") for at in range(9)]
    first, *others = judge_claims(registered(claim(), *unrun), scores(*values), range(1, SEEDS + 1))
    assert (first.verdict, first.p_claimed) == ("inconclusive", pytest.approx(10 * raw))
    assert {(other.verdict, other.reason) for other in others} == {("not testable here", "needs a GPU")}


def test_missing_seed_makes_a_claim_incomplete_and_names_it():
    results = scores(*[0.5] * SEEDS)
    del results[5]
    [finding] = judge_claims(registered(claim()), results, range(1, SEEDS + 1))
    assert (finding.verdict, finding.reason) == ("incomplete", "seed 5: new has no f1")
    assert (finding.values[5], finding.p_claimed) == (None, None)


def test_pilot_gives_no_verdict_whatever_its_numbers():
    findings = judge_claims(registered(claim()), scores(*[0.5] * SEEDS), range(1, SEEDS + 1), pilot=True)
    assert [finding.verdict for finding in findings] == ["incomplete"]
    assert "pilot" in findings[0].reason


def test_failed_gate_leaves_only_the_claims_that_depend_on_it_untestable():
    registration = registered(claim(), claim("other", gates=("cap",)))
    failed = {"cap", "unused"}
    findings = judge_claims(registration, scores(*[0.5] * SEEDS), range(1, SEEDS + 1), failed_gates=failed)
    assert [finding.verdict for finding in findings] == ["holds", "not testable here"]
    assert findings[1].reason == "gates that do not pass: cap"
    both = registration.model_copy(update={"gates": ("cap",)})
    assert verdicts(both, scores(*[0.5] * SEEDS), failed_gates=failed) == ["not testable here"] * 2


def test_gate_that_no_run_measured_gives_no_verdict_either():
    registration, results = registered(claim(gates=("cap",))), scores(*[0.5] * SEEDS)
    assert verdicts(registration, results, unmeasured_gates={"cap"}) == ["not testable here"]
    assert verdicts(registration, results, unmeasured_gates={"other"}) == ["holds"]
    del results[2]
    assert verdicts(registration, results, unmeasured_gates={"cap"}) == ["incomplete"]


def test_difference_is_paired_by_sample_and_unjudged_pairs_are_no_zeros():
    first, second = {"a": 1.0, "b": 0.5, "c": None}, {"a": 0.0, "b": 0.5, "c": 1.0}
    samples = {f"s{at}": 0.5 for at in range(60)}
    arms = {"new": {"f1": first | samples}, "old": {"f1": second | samples}}
    assert seed_difference(claim(), arms).value == pytest.approx(1 / 62)
    few = {"new": {"f1": first}, "old": {"f1": second}}
    assert seed_difference(claim(), few) == (None, "1 of 3 pairs could not be judged")
    other = {"new": {"f1": {"a": 1.0}}, "old": {"f1": {"z": 1.0}}}
    assert seed_difference(claim(), other) == (None, "new and old share 0 of 1 samples")


def test_blinded_number_of_seeds_finds_the_margin_with_the_planned_power():
    plan = Blinded(pilot=5, at=8, most=60)
    seeds = blinded_seeds([0.04, 0.02], 0.03, plan, alpha=0.025, claims=1)
    random, detected = np.random.default_rng(0), 0
    for _ in range(600):
        detected += evidence(list(random.normal(0.03, 0.04, seeds)), "greater", 0.03).claimed <= 0.025
    assert stats.binomtest(detected, 600, 0.8).pvalue > 0.001, (seeds, detected)
    assert blinded_seeds([0.001], 0.03, plan, alpha=0.025, claims=10) == 8
    assert blinded_seeds([9.0], 0.03, plan, alpha=0.025, claims=10) == 60


def test_blinded_number_ignores_the_mean_and_waits_for_the_first_seeds():
    registration = registered(claim(), blinded=Blinded(pilot=5, at=8, most=60))
    noise = np.linspace(-0.05, 0.05, 8)
    numbers = {planned_seeds(registration, scores(*(noise + shift))) for shift in (-0.3, 0.0, 0.3)}
    assert len(numbers) == 1
    assert 8 < numbers.pop() < 60
    assert planned_seeds(registration, scores(*noise[:7])) == SEEDS


def test_registration_refuses_what_could_not_be_compared():
    with pytest.raises(ValueError, match="two claims have the id better"):
        registered(claim(), claim())
    with pytest.raises(ValueError, match="compares new with itself"):
        registered(claim().model_copy(update={"arms": ("new", "new")}))


def test_digest_covers_the_margin_and_not_the_measured_cost():
    registration = registered(claim())
    assert registered(claim(), cpu_seconds={"own": 9.0}).digest == registration.digest
    assert registered(claim(margin=0.02)).digest != registration.digest


def test_damaged_registration_is_one_line(tmp_path):
    from rubricworks.claims.registration import load_registration

    path = tmp_path / "claims.yaml"
    path.write_text("paper: P\nrecipe: r\nseeds: 3\nmargin: -1\nclaims: []\n")
    with pytest.raises(UserError, match=r"claims.yaml: margin: .*correct the registration"):
        load_registration(path)
    path.write_text("paper: [")
    with pytest.raises(UserError, match=r"claims.yaml: line \d"):
        load_registration(path)
