"""Papers whose claims can be checked: those of methods that have a module `claims` with a `PAPER`."""

import importlib
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from rubricworks.claims.claim import Finding
from rubricworks.recipe import METHODS


class Paper(NamedTuple):
    """One paper: the recipe and arms that are run, and the function that reads findings from the runs."""

    title: str
    recipe: str
    arms: tuple[str, ...]
    """Arms of the recipe; each is run beside it for every seed."""
    is_finished: Callable[[Path], bool]
    """Test of a run's folder: it holds all that the findings are read from."""
    findings: Callable[[Mapping[int, Path]], list[Finding]]
    """Takes seed → folder of the recipe's own run, beside which those of the arms lie."""
    notes: tuple[str, ...]
    overrides: tuple[str, ...] = ()
    """Changes of the recipe in every run, `a.b=c` each, unless the user gives others."""


def methods_with_claims() -> list[str]:
    """Names of the methods whose claims can be checked."""
    return [method for method, package in METHODS.items() if find_spec(f"{package}.claims")]


def load_paper(method: str) -> Paper:
    """Import the paper of a method."""
    paper: Paper = importlib.import_module(f"{METHODS[method]}.claims").PAPER
    return paper
