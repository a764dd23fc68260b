"""The papers whose claims can be checked: which recipe is run, with which arms, and what is read of the runs."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from rubricworks.claims import balcaprl, balcaprl_folder, rlr3, rlr3_folder
from rubricworks.claims.claim import Finding


class Paper(NamedTuple):
    title: str
    recipe: str
    arms: tuple[str, ...]
    """Of the recipe, each run beside it for every seed."""
    finished: Callable[[Path], bool]
    findings: Callable[[Mapping[int, Path]], list[Finding]]
    """Seed → the folder of its own run, beside which the arms' stand."""
    notes: tuple[str, ...]
    settings: tuple[str, ...] = ()
    """Of every run, as `a.b=c`, where the user gives no others."""


PAPERS = {
    "rlr3": Paper("RLR³", rlr3_folder.RECIPE, (), rlr3_folder.is_finished, rlr3.rlr3_findings, rlr3.NOTES),
    "balcaprl": Paper(
        "BalCapRL",
        balcaprl_folder.RECIPE,
        balcaprl.ARMS,
        balcaprl_folder.is_finished,
        balcaprl.balcaprl_findings,
        balcaprl.NOTES,
        balcaprl.SETTINGS,
    ),
}
