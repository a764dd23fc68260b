"""Arms that `rubricworks arms` compares: those of methods that have a module `arms` with an `ARMS`."""

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from rubricworks.errors import UserError
from rubricworks.recipe import METHODS

OWN = "own"
"""The recipe's own run, in the place of an arm."""


class ArmRuns(NamedTuple):
    """Finished runs of a recipe and its arms, and the heading of their table."""

    title: str
    recipe: str
    seed: int
    changed: tuple[str, ...]
    """Settings that all runs changed in the recipe."""
    simulated: bool
    version: str
    """Version of rubricworks."""
    folders: Mapping[str, Path]
    """`own` or an arm → folder of its run."""
    rows: Sequence[str]
    """The names that the table shows, in its order."""


class ArmDocuments(NamedTuple):
    """A table of arms in each form."""

    text: str
    json: str
    markdown: str
    html: str


class ArmComparison(NamedTuple):
    """A method's tables of arms."""

    titles: Mapping[str, str]
    """Table → its title."""
    tables: Mapping[str, Sequence[str]]
    """Table → its rows below the base model's, in the paper's order; `*` at an end matches any arm that begins so."""
    is_finished: Callable[[Path], bool]
    """Test of a run's folder: it holds all that is compared."""
    write: Callable[[ArmRuns], ArmDocuments]
    default: str | None = None
    """Table that a recipe is compared in when neither a table nor an arm is named."""

    def rows_of(self, table: str, arms: Iterable[str]) -> list[str]:
        """Arms in a table's rows below the base model, as far as the recipe has them."""
        available = [*arms, OWN]
        rows: list[str] = []
        for row in self.tables[table]:
            names = [arm for arm in available if arm.startswith(row[:-1])] if row.endswith("*") else [row]
            rows += [name for name in names if name in available]
        return rows


def arm_methods() -> list[str]:
    """Methods whose arms can be compared."""
    return [method for method, package in METHODS.items() if find_spec(f"{package}.arms")]


def arm_table_names() -> list[str]:
    """Names of the tables of all methods."""
    return [name for method in arm_methods() for name in _load(method).titles]


def arm_comparison(recipe: str, method: str) -> ArmComparison:
    """Load the tables of arms of a method.

    Args:
        recipe: name or file of the recipe, for the error.
    Raises:
        UserError: the method has no tables of arms.
    """
    *methods, last = arm_methods()
    if method not in (*methods, last):
        raise UserError(
            f"{recipe}: a recipe of the pipeline {method}; arms are compared of {', '.join(methods)} and {last} only"
        )
    return _load(method)


def _load(method: str) -> ArmComparison:
    comparison: ArmComparison = importlib.import_module(f"{METHODS[method]}.arms").ARMS
    return comparison
