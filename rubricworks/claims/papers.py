"""Papers whose claims can be checked: those methods that have a module `claims` with a `PAPER`."""

import importlib
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from rubricworks.claims.claim import Finding
from rubricworks.recipe import METHODS


class Paper(NamedTuple):
    """One paper: which recipe is run, with which arms, and what is read of the runs."""

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


def papers() -> list[str]:
    """Methods that have claims."""
    return [method for method, package in METHODS.items() if find_spec(f"{package}.claims")]


def load_paper(method: str) -> Paper:
    paper: Paper = importlib.import_module(f"{METHODS[method]}.claims").PAPER
    return paper
