"""Tables of a BalCapRL recipe's arms, as in the paper's Tables 3, 4, 6 and 7, with 95 % intervals.

All policies of a table start from the same base model and decode greedily on the same held-out images. Intervals are
over those images and do not cover the variance between trainings; `rubricworks claims` runs several seeds.
"""

from rubricworks.claims.arm_table import ArmForm, Column
from rubricworks.claims.arms import OWN
from rubricworks.evaluation.scoreboard import BASE, LENGTH, WIN, Scoreboard
from rubricworks.metrics import Interval

TABLES: dict[str, tuple[str, ...]] = {
    "components": (
        *("full", "no_cgdpo", "no_precision", "no_recall", "no_linguistic", "no_pointability", "weak_references"),
    ),
    "length": ("no_length", "linear", "full", "gate_*"),
    "weights": ("no_precision", OWN, "w_prec_02", "full", "w_prec_04"),
    "judges": (OWN, "judge_*"),
    "peers": ("sft", "caprl", "rubicap", OWN),
}
"""Rows below the base model's, in the paper's order; `*` matches any arm of the recipe."""
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
FORM = ArmForm(
    columns={
        "dc_score": Column("DCScore"),
        "caption_qa": Column("CaptionQA", "Capt.QA"),
        WIN: Column("Arena", of_base=0.5),
        LENGTH: Column("Length", plain=True),
        "b_capscore_precision": Column("Precision", "Prec."),
        "b_capscore_recall": Column("Recall"),
        "b_capscore_linguistic": Column("Linguistic", "Writing"),
        "b_capscore": Column("b-CapScore", "b-Cap"),
        "oracle_f1": Column("Oracle F1", "Oracle"),
    },
    legend=(
        "Scores in percent, length in tokens, 95 % intervals over the held-out images. Arena is the share of "
        "comparisons with the base model that were won, in the place of CapArena's Elo score. “BalCapRL” has the "
        "recipe's own weights."
    ),
    simulated=(
        "Simulated: images, recaptioner and judges are the scene world's, with programmed faults; the student and its "
        "training are real."
    ),
    stood_in="images, recaptioner and judges",
)
"""The paper's four columns, then their components. The base model wins half of the comparisons with itself."""


def arm_figures(board: Scoreboard, model: str) -> dict[str, Interval]:
    """Figures of a model that are columns."""
    return {figure: mean for figure in FORM.columns if (mean := board.mean(model, figure))}


def arm_label(arm: str) -> str:
    """Label of an arm: the paper's, or one parsed from names such as `gate_05_3` and `judge_mini`."""
    kind, _, value = arm.partition("_")
    if arm in LABELS or not value:
        return LABELS.get(arm, arm)
    if kind == "gate":
        return f"Gate {' to '.join(_decimal(bound) for bound in value.split('_'))}"
    if kind == "judge":
        return f"Judge {value.replace('_', '-')}"
    return f"Precision weight {_decimal(value.removeprefix('prec_'))}" if arm.startswith("w_prec_") else arm


def _decimal(digits: str) -> str:
    """Write the digits of an arm's name as a decimal: 05 is 0.5."""
    return f"0.{digits[1:]}" if len(digits) > 1 and digits.startswith("0") else digits
