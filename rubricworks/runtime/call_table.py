"""Tables whose rows are model answers. The items of a shard are asked concurrently; failures become dead letters."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from rubricworks.data.manifest import Manifest
from rubricworks.data.response_images import IMAGES, ResponseImages, response_columns
from rubricworks.data.tables import Row as Row
from rubricworks.data.tables import build_table, count_rows, read_rows
from rubricworks.errors import UserError
from rubricworks.llm import ChatClient, ChatError, Reply
from rubricworks.runtime.job import Job
from rubricworks.runtime.pods.fan_out import part_from_environment, stage_parts

if TYPE_CHECKING:
    from rubricworks.grading import FailedCall

T = TypeVar("T")


class Answers(NamedTuple):
    """Rows that one item produced: for the table, for `dead_letters` and for side tables."""

    rows: list[Row]
    dead_letters: list[Row]
    side_tables: Mapping[str, list[Row]] = {}
    """Table name → rows."""


def ask_all(
    job: Job,
    table: str,
    items: Iterable[Any],
    ask: Callable[[T], Coroutine[Any, Any, Answers]],
    *,
    total: int,
    shard_size: int,
    clients: Iterable[ChatClient],
    side_tables: Sequence[str] = (),
    place: str = "",
    load_drawing: Callable[[], Callable[[list[Any]], list[T]]] | None = None,
    accelerators: int = 0,
    unit: str = "samples",
) -> Manifest:
    """Build the job's table, its dead letters and side tables from what `ask` returns for each item, in order.

    A part of a fanned-out stage (`fan_out`) asks for its own items alone; the stage then merges the parts' tables.

    Args:
        total: number of items.
        side_tables: names of further tables, each written to a folder of its name.
        place: folder of the table in the job's; the job's own by default.
        load_drawing: loads a model, where items are asked about, and returns what makes the items of a shard that
            `ask` gets of those of the table; it runs in a thread, some shards ahead of the calls.
        accelerators: those that this model needs; where the stage has more, processes share the items.
        unit: plural noun for one item, for progress and messages.
    Raises:
        UserError: there were items and none produced a row.
    """

    tables = (table, "dead_letters", *side_tables)
    part = part_from_environment()
    if part is not None:
        items, total = part.items(items, total, shard_size), part.size(total, shard_size)
    parts = stage_parts(job, total, shard_size, place=place, accelerators=accelerators)
    draw = load_drawing() if load_drawing and not parts else None

    async def make_rows(chunk: list[T]) -> dict[str, list[Row]]:
        answers = await job.calls.gather_all(ask(item) for item in chunk)
        return {
            table: [row for answer in answers for row in answer.rows],
            "dead_letters": [row for answer in answers for row in answer.dead_letters],
            **{name: [row for answer in answers for row in answer.side_tables.get(name, [])] for name in side_tables},
        }

    async def read_part_rows(numbers: list[int]) -> dict[str, list[Row]]:
        assert parts is not None
        return parts.rows(numbers[0] // shard_size, tables)

    async def make_table() -> Manifest:
        async with AsyncExitStack() as stack:
            for client in clients:
                await stack.enter_async_context(client)
            prepare = None
            if draw is not None:
                thread = stack.enter_context(ThreadPoolExecutor(1))
                stack.callback(thread.shutdown, wait=False, cancel_futures=True)
                prepare = partial(_call_in, thread, draw)
            build = partial(
                build_table,
                job.out / place,
                table,
                made_by=job.made_by,
                shard_size=shard_size,
                side_tables={name: job.out / name for name in tables[1:]},
                progress=job.progress(total, unit).at,
            )
            if parts:
                return await build(items=range(total), make_rows=read_part_rows)
            return await build(items=items, make_rows=make_rows, prepare=prepare)

    if parts:
        parts.run()
    manifest = asyncio.run(make_table())
    if parts:
        parts.delete()
    job.figures.update({place or table: manifest.rows, "dead_letters": count_rows(job.out / "dead_letters")})
    # An empty part may be chance; only the whole stage is judged.
    if total and not manifest.rows and part is None:
        job.mark_unusable()
        raise UserError(f"no {table} came of {total} {unit}: {_main_reasons(job)}; see {job.out / 'dead_letters'}")
    return manifest


async def _call_in(thread: ThreadPoolExecutor, draw: Callable[[list[Any]], list[T]], items: list[Any]) -> list[T]:
    return await asyncio.get_running_loop().run_in_executor(thread, draw, items)


def caption_row(sample_id: str, client: ChatClient, seed: int, reply: Reply[Any]) -> Row:
    """Return one row of the `captions` table."""
    from rubricworks.synthesis.prompts import CAPTION_PROMPT_VERSION

    return {
        "sample_id": sample_id,
        "captioner": client.endpoint.model,
        "model": client.endpoint.model,
        "revision": client.endpoint.revision,
        "prompt_version": CAPTION_PROMPT_VERSION,
        "endpoint": client.endpoint.urls[0],
        "seed": seed,
        "caption": str(reply.value).strip(),
        "prompt_tokens": reply.usage.prompt_tokens,
        "completion_tokens": reply.usage.completion_tokens,
        "cost": reply.usage.cost,
    }


def dead_letter(sample_id: str, job: Job, purpose: str, error: ChatError) -> Row:
    """Return the `dead_letters` row for a failed call: the error, the request and the raw answer if there was one."""
    return {
        "sample_id": sample_id,
        "stage": job.stage,
        "purpose": purpose,
        "criterion": None,
        "response": None,
        "response_type": None,
        "reason": error.error_class.value,
        "message": error.message,
        "raw": error.raw,
        "request": error.request,
        "attempts": error.attempts,
    }


def grading_dead_letters(job: Job, call: "FailedCall") -> list[Row]:
    """Return one `dead_letters` row per criterion that the failed judge call should have decided.

    A response that is an image is stored in the stage's folder.
    """
    ResponseImages(job.out / IMAGES).add(call.response)
    row = dead_letter(call.sample_id, job, f"grading by {call.judge}", call.error)
    return [{**row, "criterion": criterion, **response_columns(call.response)} for criterion in call.criteria]


def _main_reasons(job: Job) -> str:
    rows = read_rows(job.out / "dead_letters", columns=["reason", "purpose", "message"])
    counts = Counter((row["purpose"], row["reason"], row["message"][:160]) for row in rows)
    reasons = [
        f"{purpose}: {count} x {reason} ({message})" for (purpose, reason, message), count in counts.most_common(2)
    ]
    return "; ".join(reasons) or "nothing was asked for"
