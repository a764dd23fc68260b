"""What is shown of a run on Kubeflow beyond Kubeflow's own word: its stages' failures and pages elsewhere.

Kubeflow says that a task failed, and not why. The stage has written why into the run's folder, which the index follows.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.tables import Run
from rubricworks.platform_api.services.runs import outside_links
from rubricworks.platform_api.services.submission.kubeflow_runs import state_word
from rubricworks.redaction import redact
from rubricworks.runs.store import RunStore

if TYPE_CHECKING:
    from rubricworks.kubeflow.remote_runs import RemoteRun, StageState

_NO_REASON = "Kubeflow gives no reason; the stage's log has it"


class RemoteDetails(NamedTuple):
    """Details of a run on Kubeflow."""

    stages: "Sequence[StageState]"
    """As Kubeflow has them, with the reason of each failure."""
    folder: str
    """Name of the run here; empty if its folder is not in this storage, or not yet."""
    links: dict[str, str]
    """Name of a program → address of the run's page there."""


async def run_details(session: AsyncSession, store: RunStore | None, run: "RemoteRun") -> RemoteDetails:
    """Details of a run."""
    place, _, folder = run.uri.rstrip("/").rpartition("/")
    # A run of the same name may lie elsewhere.
    record = await session.get(Run, folder) if store is not None and place == store.uri else None
    failed, _, reason = record.message.partition(": ") if record and record.state == "failed" else ("", "", "")
    stages = []
    for stage in run.stages:
        error = redact(stage.error) or (reason if stage.stage == failed else "")
        if state_word(stage.state) == "failed" and not error:
            error = _NO_REASON
        stages.append(stage.model_copy(update={"error": error}))
    links = {"Kubeflow": run.page}
    if record is not None and store is not None:
        links = await outside_links(session, store, folder) | links
    return RemoteDetails(stages, folder if record is not None else "", links)
