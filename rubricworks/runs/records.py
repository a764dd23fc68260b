"""What can be told of a run from its folder or its objects alone: whether it is done, what its stages came to.

A run is done when its outcome says so: `run` writes it at the end, and so does the last task on a cluster. Runs that
were made before outcomes were written are done when their report is. A stage that was begun since makes it undone.
"""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict

from rubricworks.recipe import DEFAULT_METHOD
from rubricworks.runs.store import RunStore, StoredFile
from rubricworks.runtime.job import DONE
from rubricworks.runtime.reuse import REUSE_FILE
from rubricworks.runtime.stage_table import CLUSTER_TASKS, REPORTS

OUTCOME = "outcome.json"
_OUTCOMES = (OUTCOME, f"outcome/{OUTCOME}")
State = Literal["done", "going", "failed", "unfinished"]

_BEGUN = "made_from.json"
_OPENED = "state/preflight/"
"""What a run of a cluster has from its start; its recipe only once its checks have passed."""


class StageRecord(BaseModel):
    """A stage of a run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stage: str
    done: bool
    changed: datetime
    """When it was done, or else begun."""


class RunRecord(BaseModel):
    """A run as it lies there."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    uri: str
    state: State
    recipe: str
    pipeline: str
    began: datetime
    changed: datetime
    """When anything of it was last written."""
    bytes: int
    stages: tuple[StageRecord, ...]
    """In the order in which they were done."""
    message: str = ""
    """Why it failed, or what came of it where a stage of one that is done said so."""
    tracking: dict[str, Any] = {}
    """Where it is tracked."""
    takes_from: tuple[str, ...] = ()
    """Names of the runs that its stages may be taken from."""


def records(store: RunStore) -> Iterator[RunRecord]:
    """Every run of a store, the one that was changed last first."""
    found = [record for name in store.names() if (record := record_of(store, name)) is not None]
    yield from sorted(found, key=lambda record: record.changed, reverse=True)


def record_of(store: RunStore, name: str) -> RunRecord | None:
    """One run; None where there is none of that name."""
    files = store.files(name)
    if "recipe.yaml" not in files and not any(path.startswith(_OPENED) for path in files):
        return None
    recipe = _mapping(yaml.safe_load, store.read(name, "recipe.yaml"))
    stages = _stages(files)
    failed = _failure(store, name, files)
    if store.is_held(name):
        state: State = "going"
    elif _is_done(store, name, files, stages):
        state = "done"
    else:
        state = "failed" if failed else "unfinished"
    times = [file.modified for file in files.values()]
    return RunRecord(
        name=name,
        uri=f"{store.uri}/{name}",
        state=state,
        recipe=str(recipe.get("name") or ""),
        pipeline=str(recipe.get("pipeline") or DEFAULT_METHOD) if recipe else "",
        began=min(times),
        changed=max(times),
        bytes=sum(file.size for file in files.values()),
        stages=stages,
        message=failed if state == "failed" else _good_end(store, name, files) if state == "done" else "",
        tracking=_object(store.read(name, "tracking/settings.json")).get("config") or {},
        takes_from=_takes_from(store, name) if REUSE_FILE in files else (),
    )


def _takes_from(store: RunStore, name: str) -> tuple[str, ...]:
    sources = _object(store.read(name, REUSE_FILE)).get("runs")
    return tuple(Path(str(source)).name for source in sources) if isinstance(sources, list) else ()


def _stages(files: dict[str, StoredFile]) -> tuple[StageRecord, ...]:
    begun = {
        stage: file.modified
        for path, file in files.items()
        for stage, _, mark in [path.partition("/")]
        if mark == _BEGUN and stage not in CLUSTER_TASKS
    }
    ended = {stage: files[f"{stage}/{DONE}"].modified for stage in begun if f"{stage}/{DONE}" in files}
    found = [
        StageRecord(stage=stage, done=stage in ended, changed=ended.get(stage, began)) for stage, began in begun.items()
    ]
    return tuple(sorted(found, key=lambda one: (not one.done, one.changed)))


def _is_done(store: RunStore, name: str, files: dict[str, StoredFile], stages: tuple[StageRecord, ...]) -> bool:
    for path in _OUTCOMES:
        if path in files and _object(store.read(name, path)).get("state") == "SUCCEEDED":
            since = files[path].modified
            return not any(stage.changed > since for stage in stages) and not _attempted(files, since)
    return any(stage.stage in REPORTS and stage.done for stage in stages) and all(stage.done for stage in stages)


def _good_end(store: RunStore, name: str, files: dict[str, StoredFile]) -> str:
    """What the outcome says of a run that is done."""
    ends = [end for path in _OUTCOMES if path in files and (end := _object(store.read(name, path)))]
    return next((" ".join(str(end["message"]).split()) for end in ends if end.get("message")), "")


def _attempted(files: dict[str, StoredFile], since: datetime) -> bool:
    """Whether a pod has begun a stage since."""
    ours = tuple(f"state/{task}/" for task in CLUSTER_TASKS)
    return any(
        path.startswith("state/") and path.endswith("/attempt.json") and not path.startswith(ours)
        for path, file in files.items()
        if file.modified > since
    )


def _failure(store: RunStore, name: str, files: dict[str, StoredFile]) -> str:
    """What the stage that failed last had to say."""
    said = [
        path for path in files if path == "error.json" or (path.startswith("state/") and path.endswith("/error.json"))
    ]
    for path in sorted(said, key=lambda path: files[path].modified, reverse=True):
        error = _object(store.read(name, path))
        if "message" in error:
            return f"{error.get('stage', '')}: {' '.join(str(error['message']).split())}"
    return ""


def _object(content: bytes | None) -> dict[str, Any]:
    return _mapping(json.loads, content)


def _mapping(parse: Any, content: bytes | None) -> dict[str, Any]:
    """What a file says, as far as it can be read."""
    try:
        said = parse(content) if content else {}
    except (ValueError, yaml.YAMLError):
        return {}
    return said if isinstance(said, dict) else {}
