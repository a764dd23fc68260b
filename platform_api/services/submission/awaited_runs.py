"""Rows of submitted runs that have written no file yet, so that every list has them from their submission on.

The index puts the run's record in their place once there is one. A run that ended before its first file stays.
"""

from sqlalchemy import delete
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.tables import Run, Submission, utc_now

AWAITED = ("starting", "queued")
"""States of a run before its first file: its process starts here, or its pods wait on Kubeflow."""


async def show_awaited(session: AsyncSession, submission: Submission, *, recipe: str = "", pipeline: str = "") -> None:
    """Store the state of a submitted run in its row, unless its own files have one.

    Args:
        recipe, pipeline: of a run that is submitted just now.
    """
    run = await session.get(Run, submission.run)
    if run is None:
        session.add(run := _row(submission, recipe, pipeline))
    if run.bytes or run.fault:
        return
    run.state, run.message, run.changed = _state(submission), submission.message, utc_now()


async def drop_awaited(session: AsyncSession, run: str) -> None:
    """Drop the row of a run that could not be started."""
    await session.execute(delete(Run).where(Run.name == run, Run.bytes == 0, Run.fault == ""))


def _state(submission: Submission) -> str:
    match submission.state:
        case "starting" | "going":
            return "starting" if submission.place == "here" else "queued"
        case "stopping":
            return "stopped"
    return "stopped" if submission.message.startswith("stopped") else "failed" if submission.message else "unfinished"


def _row(submission: Submission, recipe: str, pipeline: str) -> Run:
    now = utc_now()
    return Run(
        name=submission.run,
        state="starting",
        recipe=recipe,
        pipeline=pipeline,
        started=now,
        changed=now,
        bytes=0,
        message="",
        stages=[],
        progress=[],
        simulated=False,
        fault="",
        owner=submission.submitted_by,
    )
