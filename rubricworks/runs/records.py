"""Records of runs, read from their files alone: state, stages, message.

A run is done, or was stopped by somebody, when its outcome says so: `run` writes it at the end, and so does the last
task on a cluster. A stage that was started since makes the run unfinished. A process of this machine holds the folder
of its run; one in a bucket is held by nobody, and is going if something was written to it a short while ago and nothing
says that it has ended or failed since.

What cannot be read of a run is a fault of its record, and of no other run's.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from rubricworks.data.ledger import LEDGER_FILE, first_start, parse_ledger, stage_ends
from rubricworks.recipe import DEFAULT_METHOD
from rubricworks.reports.run_folder import SOURCE
from rubricworks.runs.store import PRUNED, RunStore, StoredFile
from rubricworks.runtime.job import DONE
from rubricworks.runtime.progress import StageProgress, parse_progress, progress_path
from rubricworks.runtime.reuse import REUSE_FILE
from rubricworks.runtime.stage_table import CLUSTER_TASKS
from rubricworks.storage import is_remote
from rubricworks.storage.confined_files import UnreadableFile
from rubricworks.storage.plain_json import plain_object, plain_text
from rubricworks.strict_yaml import parse_yaml

OUTCOME = "outcome.json"
_OUTCOMES = (OUTCOME, f"outcome/{OUTCOME}")
State = Literal["done", "going", "stopped", "failed", "unfinished"]

SILENT_AFTER = timedelta(minutes=20)
"""Silence after which a run in a bucket is not going: longer than most steps of a training."""
_STAGE_START = "made_from.json"
_MOST_AT_WORK = 4
"""Stages of a run whose progress is read."""
_PREFLIGHT = "state/preflight/"
"""Folder that a run on a cluster has from its start; its recipe comes when its checks have passed."""


class StageRecord(BaseModel):
    """A stage of a run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stage: str
    done: bool
    changed: datetime
    """Time of its end, or else of its start."""


class StageAtWork(StageProgress):
    """Progress of a stage that is at work."""

    stage: str


class RunRecord(BaseModel):
    """A run, as recorded in its files."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    uri: str
    state: State
    recipe: str
    pipeline: str
    started: datetime
    changed: datetime
    """Time of the last write to any of its files."""
    bytes: int
    stages: tuple[StageRecord, ...]
    """Finished ones first, in the order of their ends."""
    message: str = ""
    """Reason of a failure, the way on of a run that was stopped, or the result that a finished run reported."""
    progress: tuple[StageAtWork, ...] = ()
    """Stages at work, the last begun first; empty if the run is not running."""
    simulated: bool = False
    """True if the scene world simulated images or models."""
    tracking: dict[str, Any] = {}
    """Tracking configuration."""
    tracking_key: str = ""
    """Key by which its MLflow runs are found."""
    reused_runs: tuple[str, ...] = ()
    """Names of the runs that its stages may be reused from."""
    fault: str = ""
    """Unreadable files and what to do about them; the other fields come from the readable files."""


def run_records(store: RunStore) -> Iterator[RunRecord]:
    """Every run of a store, the last changed first."""
    records = [record for name in store.names() if (record := run_record(store, name)) is not None]
    yield from sorted(records, key=lambda record: record.changed, reverse=True)


def run_record(
    store: RunStore, name: str, *, files: dict[str, StoredFile] | None = None, now: datetime | None = None
) -> RunRecord | None:
    """Record of a run; None if the store has none of that name.

    Args:
        files: its files, if they are listed already.
        now: time at which it is asked for.
    """
    try:
        files = store.files(name) if files is None else files
    except UnreadableFile as error:
        return record_of_fault(store, name, str(error))
    if "recipe.yaml" not in files and not any(path.startswith(_PREFLIGHT) for path in files):
        return None
    run = _Reader(store, name, files)
    recipe = run.mapping("recipe.yaml", _parse_recipe)
    stages = _stages(files)
    outcome = _last_outcome(run, stages)
    ledger = parse_ledger(run.read(LEDGER_FILE))
    ends = stage_ends(ledger)
    failure = _failure_message(run)
    if run.is_going(now):
        state: State = "going"
    elif outcome.get("state") == "SUCCEEDED":
        state = "done"
    elif outcome.get("state") == "CANCELLED":
        state = "stopped"
    else:
        state = "failed" if failure else "unfinished"
    told = " ".join(str(outcome.get("message") or "").split()) if state in ("done", "stopped") else ""
    times = [file.modified for file in files.values()]
    settings = run.mapping("tracking/settings.json")
    tracking = settings.get("config")
    return RunRecord(
        name=name,
        uri=f"{store.uri}/{name}",
        state=state,
        recipe=plain_text(str(recipe.get("name") or "")),
        pipeline=plain_text(str(recipe.get("pipeline") or DEFAULT_METHOD)) if recipe else "",
        started=first_start(ledger) or min(times),
        changed=max(times),
        bytes=sum(file.size for file in files.values()),
        stages=tuple(sorted((_with_end(stage, ends) for stage in stages), key=_by_end)),
        message=failure if state == "failed" else told,
        progress=_progress(run, stages) if state == "going" else (),
        simulated=_is_simulated(run, recipe),
        tracking=tracking if isinstance(tracking, dict) else {},
        tracking_key=str(settings.get("key") or name),
        reused_runs=_reused_runs(run),
        fault="; ".join(run.faults),
    )


def record_of_fault(store: RunStore, name: str, fault: str) -> RunRecord:
    """Record of a run of which nothing can be read."""
    time = datetime.now(UTC)
    return RunRecord(
        name=name,
        uri=f"{store.uri}/{name}",
        state="unfinished",
        recipe="",
        pipeline="",
        started=time,
        changed=time,
        bytes=0,
        stages=(),
        fault=fault,
    )


class _Reader:
    """Files of one run; what cannot be read is empty, and a fault."""

    def __init__(self, store: RunStore, name: str, files: dict[str, StoredFile]) -> None:
        self.files = files
        self.faults: list[str] = []
        self._store, self._name = store, name

    def read(self, path: str) -> bytes:
        """Content of a file; empty if it does not exist."""
        try:
            return (self._store.read(self._name, path) if path in self.files else None) or b""
        except UnreadableFile as error:
            self.faults.append(str(error))
            return b""

    def mapping(self, path: str, parse: Callable[[bytes], dict[str, Any]] = plain_object) -> dict[str, Any]:
        """Mapping in a file; empty if it does not exist."""
        content = self.read(path)
        try:
            return parse(content) if content else {}
        except ValueError as error:
            self.faults.append(f"{self._name}/{path} is damaged ({error}); remove it, or copy the run again")
            return {}

    def is_going(self, now: datetime | None) -> bool:
        try:
            return is_going(self._store, self._name, self.files, now=now)
        except UnreadableFile as error:
            self.faults.append(str(error))
            return False


def is_going(store: RunStore, name: str, files: dict[str, StoredFile], *, now: datetime | None = None) -> bool:
    """Return True if the run's files show that a process on another machine is writing it."""
    if not is_remote(store.uri):
        return store.is_running(name)
    stages = _stages(files)
    if not files or PRUNED in files or _outcome_path(files, stages):
        return False
    last = max(file.modified for file in files.values())
    failed = max((files[path].modified for path in _error_files(files)), default=None)
    if failed is not None and not _has_attempt(files, failed):
        return False
    return last > (now or datetime.now(UTC)) - SILENT_AFTER


def _is_simulated(run: _Reader, recipe: dict[str, Any]) -> bool:
    return bool(run.mapping(SOURCE).get("simulated") if SOURCE in run.files else recipe.get("world"))


def _reused_runs(run: _Reader) -> tuple[str, ...]:
    sources = run.mapping(REUSE_FILE).get("runs")
    return tuple(Path(str(source)).name for source in sources) if isinstance(sources, list) else ()


def _stages(files: dict[str, StoredFile]) -> tuple[StageRecord, ...]:
    starts = {
        stage: file.modified
        for path, file in files.items()
        for stage, _, mark in [path.partition("/")]
        if mark == _STAGE_START and stage not in CLUSTER_TASKS
    }
    ends = {stage: files[f"{stage}/{DONE}"].modified for stage in starts if f"{stage}/{DONE}" in files}
    records = [
        StageRecord(stage=stage, done=stage in ends, changed=ends.get(stage, start)) for stage, start in starts.items()
    ]
    return tuple(sorted(records, key=_by_end))


def _by_end(stage: StageRecord) -> tuple[bool, datetime]:
    return not stage.done, stage.changed


def _with_end(stage: StageRecord, ends: dict[str, datetime]) -> StageRecord:
    stored = ends.get(stage.stage) if stage.done else None
    return stage if stored is None else stage.model_copy(update={"changed": stored})


def _progress(run: _Reader, stages: tuple[StageRecord, ...]) -> tuple[StageAtWork, ...]:
    """Progress of stages at work, of which a run has few: each costs a read of a small file."""
    at_work: list[StageAtWork] = []
    for stage in sorted(stages, key=lambda stage: stage.changed, reverse=True):
        path = progress_path(stage.stage)
        if stage.done or path not in run.files or len(at_work) == _MOST_AT_WORK:
            continue
        attempt = run.files.get(f"state/{stage.stage}/attempt.json")
        if attempt is not None and run.files[path].modified < attempt.modified:  # an earlier pod's
            continue
        if progress := parse_progress(run.read(path)):
            at_work.append(StageAtWork(stage=stage.stage, **progress.model_dump()))
    return tuple(at_work)


def _last_outcome(run: _Reader, stages: tuple[StageRecord, ...]) -> dict[str, Any]:
    """The last outcome; empty if there is none or a stage has started since."""
    own = run.mapping(OUTCOME)
    begun = own.get("begun")
    if isinstance(begun, list):  # by a run here, which deletes it when it is resumed: dates change in a copy
        stages = tuple(stage for stage in stages if stage.stage not in begun)
    path = _outcome_path(run.files, stages)
    return own if path == OUTCOME else run.mapping(path) if path else {}


def _outcome_path(files: dict[str, StoredFile], stages: tuple[StageRecord, ...]) -> str:
    """Path of the last outcome; empty if there is none or a stage has started since."""
    paths = [path for path in _OUTCOMES if path in files]
    if not paths:
        return ""
    last = max(paths, key=lambda path: files[path].modified)
    since = files[last].modified
    is_overtaken = any(stage.changed > since for stage in stages) or _has_attempt(files, since)
    return "" if is_overtaken else last


def _has_attempt(files: dict[str, StoredFile], since: datetime) -> bool:
    """Return True if a pod has started a stage since."""
    cluster_tasks = tuple(f"state/{task}/" for task in CLUSTER_TASKS)
    return any(
        path.startswith("state/") and path.endswith("/attempt.json") and not path.startswith(cluster_tasks)
        for path, file in files.items()
        if file.modified > since
    )


def _failure_message(run: _Reader) -> str:
    """Message of the stage that failed last."""
    for path in sorted(_error_files(run.files), key=lambda path: run.files[path].modified, reverse=True):
        error = run.mapping(path)
        if "message" in error:
            return f"{error.get('stage', '')}: {' '.join(str(error['message']).split())}"
    return ""


def _error_files(files: dict[str, StoredFile]) -> list[str]:
    return [
        path for path in files if path == "error.json" or (path.startswith("state/") and path.endswith("/error.json"))
    ]


def _parse_recipe(content: bytes) -> dict[str, Any]:
    value = parse_yaml(content).value
    if not isinstance(value, dict):
        raise ValueError("no recipe")  # as a parser says it
    return value
