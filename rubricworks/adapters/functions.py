"""A user-defined function as a reward: `reward: {function: "my_module:my_reward"}` in a recipe, or in a TRL script.

    def my_reward(responses, samples, **columns) -> list[float | None]: ...

The function receives the responses of a batch, their samples (`rubricworks.data.Sample`) and, as keywords, TRL's other
columns of the rows: the dataset's, such as `rubric`, and `completion_ids`. A text is a `str`, an image a
`rubricworks.rubrics.Response`. It may be a coroutine function. It returns None for a response that could not be judged;
an exception means None for the whole batch.
"""

import hashlib
import importlib
import inspect
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rubricworks.adapters.rows import batch_samples, completion_response
from rubricworks.data.images import image_fault
from rubricworks.data.tables import Sample
from rubricworks.errors import UserError
from rubricworks.grading import FailedCall
from rubricworks.llm import ChatError
from rubricworks.rubrics import ErrorClass, Response

_SIGNATURE = "(responses, samples, **columns)"


class FunctionReward:
    """An async TRL reward function that calls a user-defined function."""

    def __init__(
        self, function: str | Callable[..., Any], *, on_error: Callable[[FailedCall], object] | None = None
    ) -> None:
        """
        Args:
            function: `module:name`, or the function itself.
            on_error: called with one `FailedCall` per response when the function raises, for the dead letters.
        Raises:
            UserError: the function does not exist or does not accept these arguments.
        """
        self.function = load_reward(function) if isinstance(function, str) else check_reward(function)
        self.name = function if isinstance(function, str) else getattr(function, "__name__", repr(function))
        self.__name__ = self.name.rpartition(":")[2]
        self._on_error = on_error

    async def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
        """One reward per completion; None where the row's image cannot be read.

        Raises:
            UserError: the function does not return one number or None per response.
        """
        samples = batch_samples(prompts, columns)
        responses = [
            completion_response(completion, sample.sample_id)
            for completion, sample in zip(completions, samples, strict=True)
        ]
        try:
            values = self.function(
                [response if response.text is None else response.text for response in responses], samples, **columns
            )
            if inspect.isawaitable(values):
                values = await values
        except Exception as error:
            self._report(responses, samples, error)
            return [None] * len(responses)
        rewards = self._check(values, len(responses))
        shown = [
            (*sample.images, *([response.image] if response.image else []))
            for sample, response in zip(samples, responses, strict=True)
        ]
        return [
            None if any(map(image_fault, images)) else reward for images, reward in zip(shown, rewards, strict=True)
        ]

    def _check(self, values: Any, count: int) -> list[float | None]:
        if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
            raise UserError(f"reward {self.name} returned {type(values).__name__}; return a list of {count} numbers")
        if len(values) != count:
            raise UserError(f"reward {self.name} returned {len(values)} values for {count} responses; return one each")
        rewards: list[float | None] = []
        for at, value in enumerate(values):
            try:
                number = None if value is None else float(value)
            except (TypeError, ValueError):
                number = math.nan
            if number is not None and not math.isfinite(number):
                raise UserError(
                    f"reward {self.name} returned {value!r:.60} for response {at}; return a finite number, or None "
                    "where it cannot be judged"
                )
            rewards.append(number)
        return rewards

    def _report(self, responses: Sequence[Response], samples: Sequence[Sample], error: Exception) -> None:
        if self._on_error is None:
            return
        message = f"reward {self.name} raised {type(error).__name__}: {' '.join(str(error).split())}"
        for response, sample in zip(responses, samples, strict=True):
            failure = ChatError(ErrorClass.RAISED, message, attempts=1)
            self._on_error(FailedCall(sample.sample_id, response, self.name, ("reward",), failure))


def load_reward(name: str) -> Callable[..., Any]:
    """Import a reward function.

    Raises:
        UserError: there is no such function, or it does not take responses, samples and any column.
    """
    return check_reward(import_function(name), name)


def check_reward(function: Any, name: str = "") -> Callable[..., Any]:
    """Return the function if it takes responses, samples and any column.

    Raises:
        UserError: it does not.
    """
    columns = ("sample_id", "a_column_of_the_dataset", *_columns_by_name(function))
    return check_signature(function, name, _SIGNATURE, [], [], **{column: [] for column in columns})


def _columns_by_name(function: Any) -> list[str]:
    """Columns of the dataset that a function takes by their names, such as `rubric`."""
    try:
        parameters = list(inspect.signature(function).parameters.values())[2:]
    except (TypeError, ValueError):
        return []
    return [
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]


def import_function(name: str) -> Any:
    """Import `module:name`, also from the working directory.

    Raises:
        UserError: there is no such module or name.
    """
    module_name, colon, attribute = name.partition(":")
    if not colon or not module_name or not attribute:
        raise UserError(f"function {name!r}: write it as module:name, such as my_rewards:short_and_true")
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise UserError(f"function {name}: its module needs {error.name}, which is not installed") from error
        raise UserError(
            f"function {name}: there is no module {module_name} here or among installed packages"
        ) from error
    except Exception as error:
        raise UserError(f"function {name}: its module cannot be imported ({type(error).__name__}: {error})") from error
    function = getattr(module, attribute, None)
    if function is None:
        raise UserError(f"function {name}: the module {module_name} has no {attribute}")
    return function


def source_digest(function: Callable[..., Any]) -> str:
    """Digest of the module that defines a function: its version, which changes with every edit."""
    file = Path(getattr(sys.modules.get(function.__module__), "__file__", None) or "")
    return hashlib.sha256(file.read_bytes()).hexdigest()[:12] if file.is_file() else "unknown"


def check_signature(function: Any, name: str, written: str, *arguments: Any, **keywords: Any) -> Callable[..., Any]:
    """Return the function if it can be called with these arguments.

    Args:
        written: the signature in words, for the message.
    Raises:
        UserError: it cannot.
    """
    name = name or getattr(function, "__name__", repr(function))
    if not callable(function):
        raise UserError(f"function {name}: it is {type(function).__name__}, not a function; write {written}")
    try:
        inspect.signature(function).bind(*arguments, **keywords)
    except (TypeError, ValueError) as error:
        raise UserError(f"function {name}: it must take {written}; {error}") from error
    checked: Callable[..., Any] = function
    return checked
