"""RLR³'s claims: Table 2, Figure 2, Table 4, Table 5, and two claims of this project on the rules of section 4.3.

Each claim is one number per run. Shares are between 0 and 1: a difference of 0.01 is one percentage point.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby
from pathlib import Path
from statistics import mean
from typing import NamedTuple, TypeVar, cast

from pydantic import BaseModel, RootModel

from rubricworks.claims import claim as claims
from rubricworks.claims.claim import OWN, Claim, Observation, Paper
from rubricworks.claims.settings import read_settings
from rubricworks.data.manifest import MANIFEST
from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.evaluation.audit.summary import AuditSummary
from rubricworks.evaluation.audit.values import FAILURE_MODES, MODE_NAMES, SETTING_NAMES
from rubricworks.evaluation.scoreboard import SCORES_FILE, read_scoreboard
from rubricworks.methods.rlr3.accuracy import ARMS, Accuracies, read_accuracies
from rubricworks.methods.rlr3.genrm_report import GenrmReport
from rubricworks.methods.rlr3.recipe import Rlr3Recipe
from rubricworks.methods.rlr3.reward_rules import Group, masked_failures, spread_gain
from rubricworks.reports.run_folder import read_value
from rubricworks.rubrics import Rubric, Scorecard

STAGES = ("write_checklists", "train_genrm", "audit", "train_rlvr", "train_rlr3", "score")
"""Stages whose outputs are read."""
_GENRM, _AUDIT, _SCORES = "train_genrm/genrm.json", "audit/audit.json", f"score/{SCORES_FILE}"
_RUBRICS, _SCORECARDS = "write_checklists", "train_rlr3/scorecards"
_Value = TypeVar("_Value", bound=BaseModel)

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


class RunResults(NamedTuple):
    """Results of one run."""

    genrm: dict[str, GenrmReport]
    """Model (base, sft, rlvr) → its row of Table 4."""
    audit: AuditSummary
    answers: Accuracies
    groups: tuple[Group, ...]
    """Groups of RLR³'s training."""


class _Models(RootModel[dict[str, GenrmReport]]):
    pass


def is_finished(run: Path) -> bool:
    """Return True if the run has all files that the claims need; its own report may still be missing."""
    files = [run / name for name in (_GENRM, _AUDIT, _SCORES, f"{_SCORECARDS}/{MANIFEST}")]
    return all(path.is_file() for path in (*files, *(run / stage / "done.json" for stage in STAGES)))


def read_results(run: Path) -> RunResults:
    """Read the results of a run.

    Raises:
        UserError: a file is missing or damaged.
    """
    for stage in STAGES:
        if not (run / stage / "done.json").is_file():
            raise UserError(f"{run}: the stage {stage} has not finished; run it to its end, or leave this seed out")
    genrm = _read(run / _GENRM, _Models).root
    if missing := [model for model in ("base", "sft", "rlvr") if model not in genrm]:
        raise UserError(f"{run / _GENRM}: no figures of {', '.join(missing)}; run the stage train_genrm again")
    answers = read_accuracies(read_scoreboard(run / "score"))
    if answers is None:
        raise UserError(f"{run / _SCORES}: no scores of the base model's answers; run the stage score again")
    if missing := [arm for arm in ARMS if not answers.arms.get(arm)]:
        raise UserError(f"{run / _SCORES}: no milestones of {', '.join(missing)}; run the stage score again")
    return RunResults(genrm, _read(run / _AUDIT, AuditSummary), answers, tuple(_groups(run)))


def _read(path: Path, kind: type[_Value]) -> _Value:
    value = read_value(path, kind)
    if value is None:
        raise UserError(f"{path}: missing or empty; run the stage {path.parent.name} again")
    return value


def _groups(run: Path) -> Iterator[Group]:
    recipe = cast(Rlr3Recipe, read_settings(run, "rlr3"))
    size = recipe.policy.algorithm.rollouts.group_size
    rubrics = {
        row["sample_id"]: Rubric.model_validate_json(row["rubric"])
        for row in read_rows(run / _RUBRICS, columns=["sample_id", "rubric"])
    }
    scorecards = read_rows(run / _SCORECARDS, columns=["step", "sample_id", "scorecard"])
    for step, rows in groupby(scorecards, key=lambda row: row["step"]):
        step_rows = list(rows)
        for start in range(0, len(step_rows), size):
            group = step_rows[start : start + size]
            sample_id = group[0]["sample_id"]
            if len(group) < size or any(row["sample_id"] != sample_id for row in group) or sample_id not in rubrics:
                raise UserError(
                    f"{run / _SCORECARDS}: step {step}: the scorecards from {sample_id} on are not one group of {size} "
                    "responses to a sample with a rubric; run the stage train_rlr3 again"
                )
            credits = tuple(tuple(Scorecard.model_validate_json(row["scorecard"]).credits) for row in group)
            yield Group(rubrics[sample_id], credits)


def _check(claim: Claim, measure: Callable[[RunResults], Observation]) -> claims.Check[RunResults]:
    """Check of a claim on the recipe's own run; both policies are trained in it."""
    return claims.Check(claim, lambda results: measure(results[OWN]))


def rlr3_checks() -> Iterator[claims.Check[RunResults]]:
    yield from _table_2()
    yield from _figure_2()
    yield from _table_4()
    yield from _table_5()
    yield from _section_4()


def _table_2() -> Iterator[claims.Check[RunResults]]:
    text = "RLR³ improves the macro average over RLVR"
    yield _check(Claim(name="macro-best", statement=f"{text}: best milestones", source="Table 2"), _best)
    yield _check(Claim(name="macro-last", statement=f"{text}: ends of training", source="Table 2"), _last)


def _figure_2() -> Iterator[claims.Check[RunResults]]:
    keeps = "RLVR plateaus where RLR³ keeps improving: second half of training, RLR³'s gain minus RLVR's"
    yield _check(Claim(name="second-half", statement=keeps, source="Figure 2"), _second_half)
    holds = "RLR³ stays as near to its best as RLVR does or nearer: last minus best milestone, RLR³ minus RLVR"
    yield _check(Claim(name="stays-at-best", statement=holds, source="Figure 2", rule="not_worse"), _from_best)


def _table_4() -> Iterator[claims.Check[RunResults]]:
    for figure, words in _FORMAT.items():
        text = f"SFT repairs the base model's {words} accuracy: SFT minus base"
        claim = Claim(name=f"sft-repairs-{figure}", statement=text, source="Table 4")
        yield _check(claim, partial(_genrm, figure, "sft", "base"))
    for figure, words in _FORMAT.items():
        text = f"SFT reaches 100 % {words} accuracy: SFT minus 1"
        claim = Claim(
            name=f"sft-reaches-{figure}", statement=text, source="Table 4", rule="not_worse", margin=_NOT_WORSE
        )
        yield _check(claim, partial(_genrm, figure, "sft", None))
    text = "SFT executes more criteria right than the base model: criterion-level accuracy"
    yield _check(
        Claim(name="sft-over-base", statement=text, source="Table 4"), partial(_genrm, "criterion_level", "sft", "base")
    )
    text = "RLVR keeps SFT's criterion-level accuracy: RLVR minus SFT"
    yield _check(
        Claim(name="rlvr-keeps-sft", statement=text, source="Table 4", rule="not_worse", margin=_NOT_WORSE),
        partial(_genrm, "criterion_level", "rlvr", "sft"),
    )
    for figure, words in _CONTENT.items():
        claim = Claim(
            name=f"rlvr-over-sft-{figure}", statement=f"RLVR improves {words} accuracy over SFT", source="Table 4"
        )
        yield _check(claim, partial(_genrm, figure, "rlvr", "sft"))


def _table_5() -> Iterator[claims.Check[RunResults]]:
    for setting in _RAISES:
        text = f"Accuracy on regular responses stays close to the default's: {SETTING_NAMES[setting].lower()}"
        claim = Claim(name=f"regular-{setting}", statement=text, source="Table 5", rule="within", margin=_SAME)
        yield _check(claim, partial(_audit, setting, ("regular",)))
    for setting in _RAISES:
        text = (
            "The default has the lowest false-positive rate, mean of the four failure modes: "
            f"{SETTING_NAMES[setting].lower()} minus default"
        )
        claim = Claim(name=f"lowest-against-{setting}", statement=text, source="Table 5")
        yield _check(claim, partial(_audit, setting, FAILURE_MODES))
    for setting, (why, modes) in _RAISES.items():
        for mode in modes:
            text = (
                f"{SETTING_NAMES[setting]}, {why}: false positives on responses with the failure "
                f"“{MODE_NAMES[mode].lower()}”, minus the default's"
            )
            yield _check(
                Claim(name=f"{setting}-{mode}", statement=text, source="Table 5"), partial(_audit, setting, (mode,))
            )


def _section_4() -> Iterator[claims.Check[RunResults]]:
    text = (
        "Remapping separates responses near saturation: standard deviation of a criterion's credits that are all above "
        "0.5 and not all equal, after minus before (above 0 by its formula; the runs tell how often and how much)"
    )
    claim = Claim(name="remapping-spreads", statement=text, source="Section 4.3.1", ours=True)
    yield _check(claim, lambda of: spread_gain(of.groups))
    text = (
        "Without the gate additional criteria mask essential failures: share of the responses failing an essential "
        "criterion whose reward is above their group's mean, without the gate minus with it"
    )
    claim = Claim(name="gate-unmasks", statement=text, source="Section 4.3.2", ours=True)
    yield _check(claim, lambda of: masked_failures(of.groups))


def _genrm(figure: str, model: str, against: str | None, of: RunResults) -> Observation:
    """Difference between a measure of Table 4 for two models, or from 1."""
    mine = getattr(of.genrm[model], figure)
    other = getattr(of.genrm[against], figure) if against else None
    if mine is None or (against and other is None):
        return Observation(None, f"the test has nothing to take the {figure.replace('_', ' ')} of")
    level = f"{model.upper()} {mine.value:.3f}"
    if other is None:
        return Observation(mine.value - 1, level)
    return Observation(mine.value - other.value, f"{level}, {against} {other.value:.3f}")


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


PAPER = Paper("RLR³", "rlr3-laptop", is_finished, read_results, rlr3_checks, NOTES)
