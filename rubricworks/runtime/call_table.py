"""Tables whose rows are answers of models: ask for a shard's items at once, keep what failed as dead letters."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from rubricworks.data.manifest import Manifest
from rubricworks.data.tables import build_table, count_rows, read_rows
from rubricworks.errors import UserError
from rubricworks.llm import ChatClient, ChatError, Reply
from rubricworks.runtime.job import Job
from rubricworks.runtime.pods.fan_out import SharedOut, fan_out_of, part_from_environment

if TYPE_CHECKING:
    from rubricworks.grading import FailedCall

T = TypeVar("T")
Row = dict[str, Any]


class Answers(NamedTuple):
    """What came of one item: rows for the table, and rows for `dead_letters`."""

    rows: list[Row]
    dead_letters: list[Row]
    beside: Mapping[str, list[Row]] = {}
    """Of further tables, by name."""


def ask_all(
    job: Job,
    table: str,
    items: Iterable[T],
    ask: Callable[[T], Coroutine[Any, Any, Answers]],
    *,
    total: int,
    shard_size: int,
    clients: Iterable[ChatClient],
    beside: Sequence[str] = (),
) -> Manifest:
    """Build the job's table from what `ask` answers for each item, in order; dead letters stand in a table beside it.

    In a part of a stage that is shared out over pods these are the part's items; the stage itself puts the parts
    together (`fan_out`).

    Args:
        beside: further tables, each in a folder of its name.
    Raises:
        UserError: there were items and not one row came of them.
    """

    tables = (table, "dead_letters", *beside)
    part = part_from_environment()
    if part is not None:
        items, total = part.items(items, total, shard_size), part.size(total, shard_size)
    plan = fan_out_of(job)
    shared = SharedOut(job, plan, total, shard_size) if plan and total > shard_size else None

    async def make_rows(chunk: list[T]) -> dict[str, list[Row]]:
        answers = await job.calls.together(ask(item) for item in chunk)
        return {
            table: [row for answer in answers for row in answer.rows],
            "dead_letters": [row for answer in answers for row in answer.dead_letters],
            **{name: [row for answer in answers for row in answer.beside.get(name, [])] for name in beside},
        }

    async def rows_of_parts(numbers: list[int]) -> dict[str, list[Row]]:
        assert shared is not None
        return shared.rows(numbers[0] // shard_size, tables)

    async def make_table() -> Manifest:
        async with AsyncExitStack() as stack:
            for client in clients:
                await stack.enter_async_context(client)
            build = partial(
                build_table,
                job.out,
                table,
                made_by=job.made_by,
                shard_size=shard_size,
                side_tables={name: job.out / name for name in tables[1:]},
                progress=job.progress(total, "samples").at,
            )
            if shared:
                return await build(items=range(total), make_rows=rows_of_parts)
            return await build(items=items, make_rows=make_rows)

    if shared:
        shared.make()
    manifest = asyncio.run(make_table())
    if shared:
        shared.forget()
    job.figures.update({table: manifest.rows, "dead_letters": count_rows(job.out / "dead_letters")})
    # Of a part that may be chance: the whole stage is judged.
    if total and not manifest.rows and part is None:
        job.void()
        raise UserError(f"no {table} came of {total} samples: {_main_reasons(job)}; see {job.out / 'dead_letters'}")
    return manifest


def caption_row(sample_id: str, client: ChatClient, seed: int, reply: Reply[Any]) -> Row:
    """A row of `captions`."""
    from rubricworks.synthesis.prompts import CAPTION_PROMPT_VERSION

    return {
        "sample_id": sample_id,
        "captioner": client.endpoint.model,
        "model": client.endpoint.model,
        "revision": client.endpoint.revision,
        "prompt_version": CAPTION_PROMPT_VERSION,
        "endpoint": client.endpoint.url,
        "seed": seed,
        "caption": reply.raw.strip(),
        "prompt_tokens": reply.usage.prompt_tokens,
        "completion_tokens": reply.usage.completion_tokens,
        "cost": reply.usage.cost,
    }


def dead_letter(sample_id: str, job: Job, purpose: str, error: ChatError) -> Row:
    """The row that keeps what a model answered, or why it did not."""
    return {
        "sample_id": sample_id,
        "stage": job.stage,
        "purpose": purpose,
        "criterion": None,
        "response": None,
        "reason": error.error_class.value,
        "message": error.message,
        "raw": error.raw,
        "request": error.request,
        "attempts": error.attempts,
    }


def grading_dead_letters(job: Job, call: "FailedCall") -> list[Row]:
    """One row for each criterion that a failed call of a judge was to decide."""
    row = dead_letter(call.sample_id, job, f"grading by {call.judge}", call.error)
    return [{**row, "criterion": criterion, "response": call.response} for criterion in call.criteria]


def _main_reasons(job: Job) -> str:
    rows = read_rows(job.out / "dead_letters", columns=["reason", "purpose", "message"])
    counts = Counter((row["purpose"], row["reason"], row["message"][:160]) for row in rows)
    told = [f"{purpose}: {count} x {reason} ({message})" for (purpose, reason, message), count in counts.most_common(2)]
    return "; ".join(told) or "nothing was asked for"
