"""Errors of verifiers: a target that nothing can be checked against, a package that is not installed."""

import importlib
from types import ModuleType

from rubricworks.errors import UserError

LONGEST = 100_000
"""Characters of a call, and of a value in it."""


class CannotVerify(ValueError):
    """The target is at fault: it cannot be read, or reading it takes too long. No answer can be scored against it.

    The criterion that holds the target needs repair. An answer at fault is no error: it scores 0.
    """


def needed(module: str, package: str) -> ModuleType:
    """A module of the extra `eval`, imported when it is first used.

    Raises:
        UserError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UserError(f"{package} is missing; run: pip install 'rubricworks[eval]'") from error


def text_of(value: object) -> str | None:
    """Text of a literal: a text as it is, a number as its digits; None for any other type."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return None


def shown(value: object) -> str:
    """A literal for an error message, on one line and not too long."""
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
