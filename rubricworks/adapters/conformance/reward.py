"""A reward function of TRL's signature under the cases: its judge fails on one rollout of four, in six ways.

The function asks a judge at the address in an environment variable. The suite serves one there, which answers as given
and fails on requests that show the marked rollout. That rollout's reward must be None or NaN, or the function raises.
"""

import asyncio
import inspect
import math
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from rubricworks.adapters.conformance.bad_judge import STORIES, BadJudge, Fault
from rubricworks.adapters.conformance.findings import Finding, Outcome, described
from rubricworks.errors import UserError

_TEXTS = tuple(f"A red circle on the left, in view {number}." for number in ("ash", "birch", "cedar", "dogwood"))
_MARKED = 1


def check_reward(
    function: Callable[..., Any], judge: BadJudge, row: Mapping[str, object], *, wait_s: float = 60.0
) -> list[Finding]:
    """Run a reward function through the judge's faults.

    Args:
        function: called as TRL calls it, synchronous or asynchronous.
        judge: the served judge that the function asks; without an answer of its own it fails on every rollout.
        row: the dataset's columns, such as `prompt` and `rubric`; each rollout gets them.
        wait_s: seconds that the function may take.
    Raises:
        UserError: the function does not ask the judge, or gives no numbers where the judge answers.
    """
    marked = range(len(_TEXTS)) if judge.answer is None else (_MARKED,)
    if judge.answer is not None:
        judge.begin(None, ())
        answer = _call(function, row, wait_s)
        if isinstance(answer, BaseException):
            raise UserError(f"the reward raised where the judge answered: {described(answer)}")
        if any(_missing(value) for value in answer):
            raise UserError(
                f"the reward gave {_shown(answer, ())} where the judge answered; give by --answer what its judge says"
            )
    findings = []
    for fault in Fault:
        if fault is Fault.CUT and judge.answer is None:
            continue
        judge.begin(fault, tuple(_TEXTS[number] for number in marked))
        findings.append(_finding(fault, _call(function, row, wait_s), marked))
        if not judge.asked:
            raise UserError(
                "the reward did not ask its judge; name by --judge-env the environment variable that it takes the "
                "judge's address from"
            )
    judge.begin(None, ())
    return findings


def _finding(fault: Fault, answer: "list[float | None] | BaseException", marked: Sequence[int]) -> Finding:
    if isinstance(answer, _Waited):
        outcome, seen = Outcome.WAITS, str(answer)
    elif isinstance(answer, BaseException):
        outcome, seen = Outcome.STOPPED, described(answer)
    else:
        outcome = Outcome.UNJUDGED if all(_missing(answer[row]) for row in marked) else Outcome.NUMBER
        seen = _shown(answer, marked)
    return Finding(fault.value, STORIES[fault], outcome, seen, "")


class _Waited(Exception):
    """The function took longer than it may."""


def _call(
    function: Callable[..., Any], row: Mapping[str, object], wait_s: float
) -> "list[float | None] | BaseException":
    """Rewards of four rollouts of one row, or the error that was raised instead.

    Raises:
        UserError: the function returns something else.
    """
    prompt = row.get("prompt", "Describe it.")
    completions: list[Any] = list(_TEXTS)
    if not isinstance(prompt, str):
        completions = [[{"role": "assistant", "content": text}] for text in _TEXTS]
    columns = {name: [value] * len(_TEXTS) for name, value in row.items() if name != "prompt"}
    columns["completion_ids"] = [[1, 2, 3]] * len(_TEXTS)
    results: list[Any] = []

    def run() -> None:
        try:
            values = function(prompts=[prompt] * len(_TEXTS), completions=completions, **columns)
            results.append(asyncio.run(_await(values)) if inspect.isawaitable(values) else values)
        except BaseException as error:
            results.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(wait_s)
    if not results:
        return _Waited(f"no rewards after {wait_s:g} s")
    return results[0] if isinstance(results[0], BaseException) else _checked(results[0])


async def _await(values: Awaitable[Any]) -> Any:
    return await values


def _checked(values: Any) -> list[float | None]:
    try:
        rewards = [None if value is None else float(value) for value in values]
    except (TypeError, ValueError):
        rewards = []
    if len(rewards) != len(_TEXTS):
        raise UserError(f"the reward returned {values!r:.80} for {len(_TEXTS)} completions; one number or None each")
    return rewards


def _missing(value: float | None) -> bool:
    return value is None or math.isnan(value)


def _shown(rewards: Sequence[float | None], marked: Sequence[int]) -> str:
    """Rewards in order, those of marked rollouts in brackets."""
    texts = ["-" if value is None else f"{value:g}" for value in rewards]
    return " ".join(f"[{text}]" if row in marked else text for row, text in enumerate(texts))
