"""Dead letters: calls without a usable answer, as stages left them, and asking them again."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.errors import TransientError, UserError
from rubricworks.platform_api.db.tables import RunTable
from rubricworks.platform_api.pagination import PageRequest
from rubricworks.platform_api.problems import Conflict
from rubricworks.platform_api.schemas.bodies import Page
from rubricworks.platform_api.schemas.runs import DeadLetterBody, LetterTableBody, Reopened
from rubricworks.platform_api.services.access.audit_log import record
from rubricworks.platform_api.services.access.principals import Principal
from rubricworks.platform_api.services.runs import check_name, list_tables, open_table, table_page
from rubricworks.platform_api.services.submission.submissions import Submissions
from rubricworks.redaction import redact
from rubricworks.runs.dead_letters import LETTERS, reopen_dead_letters
from rubricworks.runs.store import RunStore
from rubricworks.storage import is_remote, local_path

_MOST_LETTERS = 20_000
"""Letters of a run that its page reads; a run with more has failed as a whole."""


async def list_letter_tables(session: AsyncSession, asked: PageRequest) -> Page[LetterTableBody]:
    """Stages with dead letters, the last written first."""
    return await table_page(session, LETTERS, asked, _table_body, least_rows=1)


async def letters_of(session: AsyncSession, store: RunStore, run: str) -> list[DeadLetterBody]:
    """Dead letters of a run by stage; without secrets."""
    letters: list[DeadLetterBody] = []
    for table in sorted(await list_tables(session, LETTERS, run=run), key=lambda table: table.path):
        if len(letters) >= _MOST_LETTERS:
            break
        rows = await asyncio.to_thread(open_table(store, table).rows, 0, _MOST_LETTERS - len(letters))
        for row in rows:
            letter = DeadLetterBody.model_validate({**row, "folder": _folder_of(table)})
            letter.message, letter.raw = redact(letter.message), redact(letter.raw)
            letters.append(letter)
    return letters


def choose_letters(letters: Sequence[DeadLetterBody], folder: str | None, reason: str | None) -> list[DeadLetterBody]:
    """Letters of a stage's folder and a reason; None takes all."""
    return [
        letter
        for letter in letters
        if (folder is None or letter.folder == folder) and (reason is None or letter.reason == reason)
    ]


def count_reasons(letters: Sequence[DeadLetterBody]) -> list[tuple[str, str, str, int]]:
    """Folder, purpose and reason with the number of letters, the most frequent first."""
    counts = Counter((letter.folder, letter.purpose, letter.reason) for letter in letters)
    return [(*key, count) for key, count in counts.most_common()]


def _table_body(table: RunTable) -> LetterTableBody:
    return LetterTableBody(run=table.run, stage=_folder_of(table), letters=table.rows, modified=table.modified)


def _folder_of(table: RunTable) -> str:
    """Folder of the stage that left a table of dead letters."""
    return table.path.removesuffix(LETTERS).rstrip("/")


async def ask_again(
    session: AsyncSession, store: RunStore, submissions: Submissions, by: Principal, run: str, stage: str
) -> Reopened:
    """Reopen a stage for its dead letters; a run that was submitted here is resumed and repeats the calls.

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
    command = f"rubricworks run --resume {run}"
    return Reopened(run=run, stage=stage, letters=count, resumed=resumed, command=command)
