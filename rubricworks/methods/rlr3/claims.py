"""RLR³'s claims: Table 2, Figure 2, Table 4, Table 5, and two claims of this project on the rules of section 4.3.

Each claim is one number per run. Shares are between 0 and 1: a difference of 0.01 is one percentage point.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from rubricworks.claims.claim import Claim, Finding, Observation, judge_claim
from rubricworks.claims.papers import Paper
from rubricworks.evaluation.audit.values import FAILURE_MODES, MODE_NAMES, SETTING_NAMES
from rubricworks.methods.rlr3.claim_results import RECIPE, RunResults, is_finished, read_results
from rubricworks.methods.rlr3.reward_rules import masked_failures, spread_gain

_FORMAT = {"schema_accuracy": "schema", "criterion": "criterion slot", "execution": "execution"}
_CONTENT = {
    "arguments": "argument",
    "credit": "credit",
    "criterion_level": "criterion-level",
    "sample_level": "sample-level",
}
_RAISES = {
    "image": ("access to the image risks self-answering", ("no_final_answer", "wrong_but_plausible")),
    "targets": (
        "shown targets become a shortcut to copy",
        ("no_final_answer", "wrong_but_plausible", "adversarial"),
    ),
    "unverified": ("verifiers reduce exploitable false positives", ("no_final_answer", "adversarial")),
}
"""Setting → the reason in section 5.5, and the failure modes whose false-positive rate it raises."""
NOTES = (
    "Figure 2: the middle milestone is the last one at or before half of the steps. Best milestones are chosen on the "
    "held-out questions themselves, as in the paper, which flatters both arms.",
)
_SAME = 0.03
_NOT_WORSE = 0.01


class Check(NamedTuple):
    """A claim with the function that computes a run's number for it."""

    claim: Claim
    measure: Callable[[RunResults], Observation]


def rlr3_findings(runs: Mapping[int, Path]) -> list[Finding]:
    """Evaluate every claim on these runs, in the order of the paper.

    Args:
        runs: seed → folder.
    Raises:
        UserError: a run is not finished, or a file is damaged.
    """
    figures = {seed: read_results(run) for seed, run in sorted(runs.items())}
    return [judge_claim(claim, {seed: measure(of) for seed, of in figures.items()}) for claim, measure in rlr3_checks()]


def rlr3_checks() -> Iterator[Check]:
    yield from _table_2()
    yield from _figure_2()
    yield from _table_4()
    yield from _table_5()
    yield from _section_4()


def _table_2() -> Iterator[Check]:
    text = "RLR³ improves the macro average over RLVR"
    yield Check(Claim(name="macro-best", statement=f"{text}: best milestones", source="Table 2"), _best)
    yield Check(Claim(name="macro-last", statement=f"{text}: ends of training", source="Table 2"), _last)


def _figure_2() -> Iterator[Check]:
    keeps = "RLVR plateaus where RLR³ keeps improving: second half of training, RLR³'s gain minus RLVR's"
    yield Check(Claim(name="second-half", statement=keeps, source="Figure 2"), _second_half)
    holds = "RLR³ stays as near to its best as RLVR does or nearer: last minus best milestone, RLR³ minus RLVR"
    yield Check(Claim(name="stays-at-best", statement=holds, source="Figure 2", rule="not_worse"), _from_best)


def _table_4() -> Iterator[Check]:
    for figure, words in _FORMAT.items():
        text = f"SFT repairs the base model's {words} accuracy: SFT minus base"
        claim = Claim(name=f"sft-repairs-{figure}", statement=text, source="Table 4")
        yield Check(claim, partial(_genrm, figure, "sft", "base"))
    for figure, words in _FORMAT.items():
        text = f"SFT reaches 100 % {words} accuracy: SFT minus 1"
        claim = Claim(
            name=f"sft-reaches-{figure}", statement=text, source="Table 4", rule="not_worse", margin=_NOT_WORSE
        )
        yield Check(claim, partial(_genrm, figure, "sft", None))
    text = "SFT executes more criteria right than the base model: criterion-level accuracy"
    yield Check(
        Claim(name="sft-over-base", statement=text, source="Table 4"), partial(_genrm, "criterion_level", "sft", "base")
    )
    text = "RLVR keeps SFT's criterion-level accuracy: RLVR minus SFT"
    yield Check(
        Claim(name="rlvr-keeps-sft", statement=text, source="Table 4", rule="not_worse", margin=_NOT_WORSE),
        partial(_genrm, "criterion_level", "rlvr", "sft"),
    )
    for figure, words in _CONTENT.items():
        claim = Claim(
            name=f"rlvr-over-sft-{figure}", statement=f"RLVR improves {words} accuracy over SFT", source="Table 4"
        )
        yield Check(claim, partial(_genrm, figure, "rlvr", "sft"))


def _table_5() -> Iterator[Check]:
    for setting in _RAISES:
        text = f"Accuracy on regular responses stays close to the default's: {SETTING_NAMES[setting].lower()}"
        claim = Claim(name=f"regular-{setting}", statement=text, source="Table 5", rule="within", margin=_SAME)
        yield Check(claim, partial(_audit, setting, ("regular",)))
    for setting in _RAISES:
        text = (
            "The default has the lowest false-positive rate, mean of the four failure modes: "
            f"{SETTING_NAMES[setting].lower()} minus default"
        )
        claim = Claim(name=f"lowest-against-{setting}", statement=text, source="Table 5")
        yield Check(claim, partial(_audit, setting, FAILURE_MODES))
    for setting, (why, modes) in _RAISES.items():
        for mode in modes:
            text = (
                f"{SETTING_NAMES[setting]}, {why}: false positives on responses with the failure "
                f"“{MODE_NAMES[mode].lower()}”, minus the default's"
            )
            yield Check(
                Claim(name=f"{setting}-{mode}", statement=text, source="Table 5"), partial(_audit, setting, (mode,))
            )


def _section_4() -> Iterator[Check]:
    text = (
        "Remapping separates responses near saturation: standard deviation of a criterion's credits that are all above "
        "0.5 and not all equal, after minus before (above 0 by its formula; the runs tell how often and how much)"
    )
    claim = Claim(name="remapping-spreads", statement=text, source="Section 4.3.1", ours=True)
    yield Check(claim, lambda of: spread_gain(of.groups))
    text = (
        "Without the gate additional criteria mask essential failures: share of the responses failing an essential "
        "criterion whose reward is above their group's mean, without the gate minus with it"
    )
    claim = Claim(name="gate-unmasks", statement=text, source="Section 4.3.2", ours=True)
    yield Check(claim, lambda of: masked_failures(of.groups))


def _genrm(figure: str, model: str, against: str | None, of: RunResults) -> Observation:
    """Difference between a measure of Table 4 for two models, or from 1."""
    one = getattr(of.genrm[model], figure)
    other = getattr(of.genrm[against], figure) if against else None
    if one is None or (against and other is None):
        return Observation(None, f"the test has nothing to take the {figure.replace('_', ' ')} of")
    level = f"{model.upper()} {one.value:.3f}"
    if other is None:
        return Observation(one.value - 1, level)
    return Observation(one.value - other.value, f"{level}, {against} {other.value:.3f}")


def _audit(setting: str, modes: tuple[str, ...], of: RunResults) -> Observation:
    """Mean rate over failure modes in a setting, minus that in the default setting."""
    rates: dict[str, list[float]] = {"text": [], setting: []}
    for name, values in rates.items():
        for mode in modes:
            cell = of.audit.settings.get(name, {}).get(mode)
            if cell is None or cell.average is None:
                where = f"{SETTING_NAMES[name]}, {MODE_NAMES[mode]}".lower()
                return Observation(None, f"nothing was judged ({where})")
            values.append(cell.average.value)
    rate, default = mean(rates[setting]), mean(rates["text"])
    return Observation(rate - default, f"{rate:.3f}, default {default:.3f}")


def _best(of: RunResults) -> Observation:
    rlr3, rlvr = (of.answers.accuracy(arm).macro.value for arm in ("rlr3", "rlvr"))
    return Observation(rlr3 - rlvr, f"RLR³ {rlr3:.3f}, RLVR {rlvr:.3f}, base {of.answers.base.macro.value:.3f}")


def _last(of: RunResults) -> Observation:
    rlr3, rlvr = (of.answers.arms[arm][-1].macro.value for arm in ("rlr3", "rlvr"))
    return Observation(rlr3 - rlvr, f"RLR³ {rlr3:.3f}, RLVR {rlvr:.3f}")


def _second_half(of: RunResults) -> Observation:
    """Difference of the arms' gains from the middle milestone, the last in the first half of the steps, to the end."""
    gains = {}
    for arm in ("rlr3", "rlvr"):
        points = of.answers.arms[arm]
        middle = [point for point in points if 2 * point.step <= points[-1].step]
        if not middle:
            return Observation(None, f"{arm} has no milestone in the first half of its {points[-1].step} steps")
        gains[arm] = points[-1].macro.value - middle[-1].macro.value
    return Observation(gains["rlr3"] - gains["rlvr"], f"RLR³ {gains['rlr3']:+.3f}, RLVR {gains['rlvr']:+.3f}")


def _from_best(of: RunResults) -> Observation:
    rlr3, rlvr = (
        of.answers.arms[arm][-1].macro.value - of.answers.accuracy(arm).macro.value for arm in ("rlr3", "rlvr")
    )
    return Observation(rlr3 - rlvr, f"RLR³ {rlr3:+.3f}, RLVR {rlvr:+.3f}")


PAPER = Paper("RLR³", RECIPE, (), is_finished, rlr3_findings, NOTES)
