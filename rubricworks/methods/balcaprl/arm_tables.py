"""The arms of a BalCapRL recipe side by side, as in the paper's Tables 3, 4, 6 and 7, with 95 % intervals.

All of a table's policies start from the same base model and are read greedily on the same held-out images. An interval
is over those images, and says nothing of how another training would have ended; `rubricworks claims` runs several.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from rubricworks.claims.arms import OWN
from rubricworks.errors import UserError
from rubricworks.evaluation.caption_summary import BASE, POLICY
from rubricworks.evaluation.summary import MeanScore
from rubricworks.methods.balcaprl.claim_figures import read_summary

WIN = "win_rate"
TABLES: dict[str, tuple[str, ...]] = {
    "components": (
        *("full", "no_cgdpo", "no_precision", "no_recall", "no_linguistic", "no_pointability", "weak_references"),
    ),
    "length": ("no_length", "linear", "full", "gate_*"),
    "weights": ("no_precision", OWN, "w_prec_02", "full", "w_prec_04"),
    "judges": (OWN, "judge_*"),
    "peers": ("sft", "caprl", "rubicap", OWN),
}
"""Rows under that of the base model, in the paper's order; `*` stands for whatever the recipe has."""
TITLES: dict[str, str] = {
    "components": "Leave-one-out ablation (Table 3)",
    "length": "Length control (Table 4)",
    "weights": "Precision's weight (Table 6)",
    "judges": "Judges in training (Table 7)",
    "peers": "Other ways to train on the same samples",
}
LABELS = {
    BASE: "Base model",
    OWN: "BalCapRL",
    "full": "Full, equal weights",
    "no_cgdpo": "w/o c-GDPO",
    "no_precision": "w/o precision",
    "no_recall": "w/o recall",
    "no_linguistic": "w/o linguistic",
    "no_pointability": "w/o pointability",
    "weak_references": "w/o recap",
    "no_length": "w/o length control",
    "linear": "Linear penalty",
    "sft": "SFT, same data",
    "caprl": "CapRL's reward",
    "rubicap": "RubiCap's reward",
}
COLUMNS = {
    "dc_score": "DCScore",
    "caption_qa": "CaptionQA",
    WIN: "Arena",
    "tokens": "Length",
    "precision": "Precision",
    "recall": "Recall",
    "linguistic": "Linguistic",
    "b_capscore": "b-CapScore",
    "oracle_f1": "Oracle F1",
}
"""The paper's four, then what they are made of. Shares are written in percent, length in tokens."""
LEGEND = (
    "Scores in percent, length in tokens, 95 % intervals over the held-out images. Arena is the share of comparisons "
    "with the base model that were won, in the place of CapArena's Elo score. “BalCapRL” has the recipe's own weights."
)


class ArmRow(BaseModel):
    """One model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    arm: str
    """`base`, `own` or the arm's name."""
    label: str
    figures: dict[str, MeanScore]
    """Column → its figure; what was not measured is missing."""


class ArmTable(BaseModel):
    """What `rubricworks arms` writes as JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    recipe: str
    seed: int
    changed: tuple[str, ...]
    """Settings that all runs changed in the recipe."""
    simulated: bool
    """Whether the scene world stood in for images and judges."""
    version: str
    """Of rubricworks."""
    rows: tuple[ArmRow, ...]


def rows_of(table: str, arms: Iterable[str]) -> list[str]:
    """What stands in a table below the base model: of its rows those that the recipe has."""
    there = [*arms, OWN]
    found: list[str] = []
    for row in TABLES[table]:
        names = [arm for arm in there if arm.startswith(row[:-1])] if row.endswith("*") else [row]
        found += [name for name in names if name in there]
    return found


def arm_rows(runs: Mapping[str, Path]) -> tuple[ArmRow, ...]:
    """The base model and every policy.

    Args:
        runs: row → folder of its run, among them `own`, whose base model all start from.
    Raises:
        UserError: a run is not finished, damaged, or began with another base model.
    """
    summaries = {arm: read_summary(run) for arm, run in runs.items()}
    base = summaries[OWN].models[BASE]
    for arm, summary in summaries.items():
        theirs = summary.models[BASE].get("tokens")
        if theirs != base.get("tokens"):
            raise UserError(
                f"{runs[arm]}: its base model does not write what that of {runs[OWN]} does; make the run again with "
                f"--reuse {runs[OWN].name}"
            )
    rows = [ArmRow(arm=BASE, label=LABELS[BASE], figures={name: base[name] for name in COLUMNS if name in base})]
    for arm, summary in summaries.items():
        figures = summary.models[POLICY] | ({WIN: summary.win_rate} if summary.win_rate else {})
        shown = {name: figures[name] for name in COLUMNS if name in figures}
        rows.append(ArmRow(arm=arm, label=label_of(arm), figures=shown))
    return tuple(rows)


def label_of(arm: str) -> str:
    """As the paper calls it; `gate_05_3` and `judge_mini` say what they are."""
    kind, _, of = arm.partition("_")
    if arm in LABELS or not of:
        return LABELS.get(arm, arm)
    if kind == "gate":
        return f"Gate {' to '.join(_decimal(bound) for bound in of.split('_'))}"
    if kind == "judge":
        return f"Judge {of.replace('_', '-')}"
    return f"Precision weight {_decimal(of.removeprefix('prec_'))}" if arm.startswith("w_prec_") else arm


def shown(rows: Sequence[ArmRow], wanted: Sequence[str]) -> tuple[ArmRow, ...]:
    """The base model's row and those wanted, in their order."""
    by_arm = {row.arm: row for row in rows}
    return tuple(by_arm[arm] for arm in (BASE, *wanted))


def _decimal(digits: str) -> str:
    """05 is 0.5."""
    return f"0.{digits[1:]}" if len(digits) > 1 and digits.startswith("0") else digits
