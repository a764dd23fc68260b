"""Verdict on a trainer in one case, without knowledge of its normalisation.

A trainer masks an unjudged rollout if it gives it advantage 0, and the others those that it gives them where the
rollout was never drawn. It takes it for 0 if it gives the advantages that it gives where 0 stands in its place.
"""

import inspect
import math
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from textwrap import shorten
from typing import Protocol

from rubricworks.adapters.conformance.cases import Batch, Case
from rubricworks.errors import UserError

_TOLERANCE = 1e-3


class Outcome(StrEnum):
    """Fate of an unjudged rollout."""

    MASKED = "masked"
    """No advantage; the others have the advantages of a group without it."""
    STOPPED = "stopped"
    """The training ends with an error: the failure is no number, and costs the run."""
    MARKED = "marked"
    """The rollout is passed on with an error beside its reward; who trains on it must heed that."""
    ZERO = "counted as 0"
    """Compared with the others as if the judge had given 0."""
    SPREAD = "spreads"
    """The judged rollouts have no advantages either: they are NaN."""
    MOVES = "moves others"
    """Changes the advantages in another way."""
    NOT_OFFERED = "not offered"
    """The trainer has no such aggregation."""
    UNJUDGED = "unjudged"
    """A reward function returns None or NaN for it."""
    NUMBER = "a number"
    """A reward function returns a number for it."""
    WAITS = "waits"
    """A reward function does not return: the training stands still."""

    @property
    def keeps(self) -> bool:
        """True if no failure became a number, or keeps the training waiting."""
        return self not in (Outcome.ZERO, Outcome.SPREAD, Outcome.MOVES, Outcome.NUMBER, Outcome.WAITS)


@dataclass(frozen=True)
class Finding:
    """Outcome of one case."""

    case: str
    story: str
    outcome: Outcome
    seen: str
    """Advantages, or the error."""
    line: str
    """Place in the peer's code that decides it, as file:line, or ""."""


class Trainer(Protocol):
    """The part of a trainer between its reward functions and its loss."""

    package: str
    """Its top module, whose lines are named."""
    left_out: Outcome
    """`MASKED` where the trainer itself leaves a rollout out, `MARKED` where it tells those who train on it."""

    def advantages(self, batch: Batch) -> Sequence[float]:
        """Return the advantages of the rollouts.

        Raises:
            NotImplementedError: the trainer has no such aggregation.
            Exception: the trainer's own, where a missing reward stops it.
        """

    def line(self, batch: Batch) -> str:
        """Place that decides about a missing reward, as file:line, or ""."""


def check_trainer(trainer: Trainer, case: Case) -> Finding:
    """Run a case and its comparisons.

    Raises:
        UserError: the trainer fails on complete rewards, too.
    """
    batch = case.batch
    try:
        with_zeros = trainer.advantages(batch.with_zeros())
    except NotImplementedError as error:
        return Finding(case.name, case.story, Outcome.NOT_OFFERED, str(error), "")
    except Exception as error:
        raise UserError(f"{trainer.package} fails on complete rewards, too: {described(error)}") from error
    try:
        actual = [float(value) for value in trainer.advantages(batch)]
    except Exception as error:
        return Finding(case.name, case.story, Outcome.STOPPED, described(error), _raised_at(error, trainer.package))
    without = batch.judged_only()
    if _same(actual, case.expected([] if without is None else list(trainer.advantages(without)))):
        outcome = trainer.left_out
    elif any(math.isnan(value) for value in actual):
        outcome = Outcome.SPREAD
    elif _same(actual, with_zeros):
        outcome = Outcome.ZERO
    else:
        outcome = Outcome.MOVES
    return Finding(case.name, case.story, outcome, _shown(actual, batch.judged_N), trainer.line(batch))


def _same(actual: Sequence[float], expected: Sequence[float]) -> bool:
    return len(actual) == len(expected) and all(
        math.isclose(a, b, abs_tol=_TOLERANCE) for a, b in zip(actual, expected, strict=True)
    )


def _shown(advantages: Sequence[float], judged: Sequence[bool]) -> str:
    """Advantages in order, those of unjudged rollouts in brackets."""
    texts = [f"{value:.2f}".replace("-0.00", "0.00") for value in advantages]
    return " ".join(text if is_judged else f"[{text}]" for text, is_judged in zip(texts, judged, strict=True))


def described(error: BaseException) -> str:
    """Type and message of an error, on one line."""
    return shorten(f"{type(error).__name__}: {error}", 80, placeholder=" …")


def _raised_at(error: BaseException, package: str) -> str:
    """Last place of the peer's own code that the error went through."""
    places = [place(frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__)]
    return next((place for place in reversed(places) if place.startswith(f"{package}/")), "")


def place(file: str, line: int) -> str:
    """File and line, the file from its package on."""
    roots = [Path(entry) for entry in sys.path if entry and Path(file).is_relative_to(entry)]
    root = max(roots, key=lambda folder: len(folder.parts), default=Path("/"))
    return f"{Path(file).relative_to(root).as_posix()}:{line}"


def line_of(function: Callable[..., object], text: str) -> str:
    """Place of the first line of a function that contains a text; where it begins if none does."""
    lines, first = inspect.getsourcelines(function)
    at = next((number for number, line in enumerate(lines) if text in line), 0)
    return place(inspect.getsourcefile(function) or "", first + at)
