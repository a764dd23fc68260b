"""Dead letters: calls without a usable answer, as stages left them, and asking them again."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.errors import TransientError, UserError
from rubricworks.platform_api.db.tables import RunTable
from rubricworks.platform_api.problems import Conflict
from rubricworks.platform_api.services.access.audit_log import record
from rubricworks.platform_api.services.access.principals import Principal
from rubricworks.platform_api.services.run_tables import list_tables, read_rows
from rubricworks.platform_api.services.runs import check_name
from rubricworks.platform_api.services.submission.submissions import Submissions
from rubricworks.redaction import redact
from rubricworks.runs.dead_letters import LETTERS, reopen_dead_letters
from rubricworks.runs.store import RunStore
from rubricworks.storage import is_remote, local_path

_MOST_LETTERS = 20_000
"""Letters of a run that its page reads; a run with more has failed as a whole."""


async def list_letter_tables(
    session: AsyncSession, *, before: tuple[Any, str, str] | None = None, limit: int
) -> Sequence[RunTable]:
    """Tables that hold dead letters, the last written first."""
    query = select(RunTable).where(RunTable.kind == LETTERS, RunTable.rows > 0).limit(limit)
    if before is not None:
        query = query.where(tuple_(RunTable.modified, RunTable.run, RunTable.path) < before)
    query = query.order_by(RunTable.modified.desc(), RunTable.run.desc(), RunTable.path.desc())
    return (await session.scalars(query)).all()


async def letters_of(session: AsyncSession, store: RunStore, run: str) -> list[dict[str, Any]]:
    """Dead letters of a run by stage, each with the folder of its stage; without secrets."""
    letters: list[dict[str, Any]] = []
    for table in sorted(await list_tables(session, LETTERS, run=run), key=lambda one: one.path):
        if len(letters) >= _MOST_LETTERS:
            break
        folder = folder_of(table)
        rows = await read_rows(store, table, 0, _MOST_LETTERS - len(letters)) if table.rows else []
        letters += [
            {**row, "folder": folder, "message": redact(row["message"]), "raw": redact(row["raw"])} for row in rows
        ]
    return letters


def choose_letters(letters: Sequence[dict[str, Any]], folder: str | None, reason: str | None) -> list[dict[str, Any]]:
    """Those letters of a stage's folder and for a reason; None takes all."""
    return [
        one
        for one in letters
        if (folder is None or one["folder"] == folder) and (reason is None or one["reason"] == reason)
    ]


def folder_of(table: RunTable) -> str:
    """Folder of the stage that left a table of dead letters."""
    return table.path.removesuffix(LETTERS).rstrip("/")


def count_reasons(letters: Sequence[dict[str, Any]]) -> list[tuple[str, str, str, int]]:
    """Folder, purpose and reason with the number of letters, the most frequent first."""
    counts = Counter((one["folder"], one["purpose"], one["reason"]) for one in letters)
    return [(*key, count) for key, count in counts.most_common()]


class AskedAgain(NamedTuple):
    """A stage that was reopened for its dead letters."""

    letters: int
    resumed: bool
    """The run goes on; otherwise whoever made it resumes it."""


async def ask_again(
    session: AsyncSession, store: RunStore, submissions: Submissions, by: Principal, run: str, stage: str
) -> AskedAgain:
    """Reopen a stage for its dead letters, and resume the run, which asks them again, if it was submitted here.

    Raises:
        BadRecipe: the recipe of a run that was submitted here reaches what no admin admits by now.
        Conflict: the run is going, lies in a bucket, or the stage's letters cannot be asked again; or another run is
            going here.
    """
    check_name(run)
    if is_remote(store.uri):
        raise Conflict(
            f"{run} lies in a bucket, where no stage is reopened: delete its folder {stage} there, then go on with "
            f"`rubricworks runs retry {run}` if it failed on Kubeflow, or else with `rubricworks run --resume {run} "
            f"--runs {store.uri}` where its endpoints are reached; the calls that were answered are cached"
        )
    count = 0

    def reopen() -> None:
        nonlocal count
        count = reopen_dead_letters(local_path(store.uri) / run, stage)
        if not count:
            raise UserError(f"{stage} of {run} has no dead letters")

    resumed = await submissions.is_here(run)
    try:
        await (submissions.resume(by, run, reopen) if resumed else asyncio.to_thread(reopen))
    except TransientError:
        raise
    except UserError as error:
        raise Conflict(str(error)) from error
    record(session, by, "run.ask_again", run, stage=stage, letters=count, resumed=resumed)
    return AskedAgain(count, resumed)
