"""Job: the inputs, output folder, clients and figures of a running stage.

A stage's output folder holds `made_from.json` (stage, version, config and input digests) from the start and
`done.json` (the same with the digest of the result) at the end. A folder made from anything else is moved aside, never
overwritten; a finished one is not made again. So a pipeline that is run a second time continues where it stopped.
"""

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rubricworks import __version__
from rubricworks.data.ledger import LEDGER_FILE
from rubricworks.data.manifest import MANIFEST, read_manifest
from rubricworks.data.response_images import IMAGES, ResponseImages
from rubricworks.errors import UserError
from rubricworks.kubernetes.work import StageWork
from rubricworks.llm import ChatClient, Endpoint
from rubricworks.runtime.calls import StageCalls
from rubricworks.runtime.config import StageConfig, canonical_json, digest_of
from rubricworks.runtime.progress import Progress, ProgressFile
from rubricworks.storage import files_digest, write_atomic
from rubricworks.storage.plain_json import plain_object

DONE = "done.json"
MADE_FROM = "made_from.json"
RECORD_VERSION = 2
"""Version of these records; a run whose records have another one cannot be continued or reused."""
OUTPUT_VALUES = "handed_on.json"
"""File of values that a stage passes to later stages besides its output URI: an object of strings."""


@dataclass
class Job:
    """One stage of one run."""

    stage: str
    run: Path
    out: Path
    inputs: dict[str, Path]
    made_by: dict[str, Any]
    """Provenance, as in manifests: stage, code version, digests of the configuration and of the inputs."""
    figures: dict[str, object] = field(default_factory=dict)
    """Figures for the stage's ledger line, such as rows, rejected or steps."""
    work: StageWork | None = None
    """The arguments of `launch`, so that other pods can be started with them."""
    can_fan_out: bool = False
    """The stage's items may be fanned out over pods (`stage_table`)."""
    calls: StageCalls = field(init=False)
    progress_file: ProgressFile = field(init=False)

    def __post_init__(self) -> None:
        self.calls = StageCalls(self.run, self.stage)
        self.progress_file = ProgressFile(self.run, self.stage)

    def progress(self, total: int, unit: str) -> Progress:
        return Progress(self.stage, total, unit, clients=self.calls.clients, file=self.progress_file)

    def client(self, endpoint: Endpoint, purpose: str) -> ChatClient:
        """Return a client whose calls use the run's cache and count against its budget."""
        return self.calls.client(endpoint, purpose)

    def mark_unusable(self) -> None:
        """Mark the output unusable: it stays for inspection, and the next attempt starts over."""
        write_atomic(self.out / MADE_FROM, canonical_json({**self.made_by, "void": True}).encode())

    def write_ledger_line(self, figures: dict[str, object], seconds: float) -> None:
        """Append the stage's line to the run's ledger, with the time of its end, which a copy of the run keeps."""
        ended = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"stage": self.stage, "seconds": round(seconds, 3), **figures, "ended": ended}
        with (self.run / LEDGER_FILE).open("a") as ledger:
            ledger.write(json.dumps(line) + "\n")

    def scratch(self, name: str) -> Path:
        """Create and return a scratch folder outside the output; its content may vary between runs."""
        folder = self.run / "scratch" / self.stage / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def read_record(path: Path) -> dict[str, Any]:
    """Read a stage's record: what it is made from, or that it is done.

    Raises:
        UserError: the file is damaged.
    """
    try:
        record = plain_object(path.read_bytes())
        if path.name == DONE and not isinstance(record.get("digest"), str):
            raise ValueError("it has no digest")
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} is damaged ({error}); delete the folder {path.parent} and resume the run, which makes it anew"
        ) from error
    return record


def refuse_other_records(run: Path) -> None:
    """Raise a UserError for a run that another version of Rubricworks started, with records of another form."""
    for path in sorted(run.glob(f"*/{MADE_FROM}")):
        if read_record(path).get("record") != RECORD_VERSION:
            raise UserError(
                f"{run}: an earlier version of Rubricworks started this run, and this one cannot continue or reuse it; "
                "start a new run"
            )


def open_job(
    stage: str,
    config: StageConfig,
    run: Path,
    inputs: dict[str, Path],
    *,
    served: Mapping[str, str] = MappingProxyType({}),
) -> Job:
    """Create the stage's folder; move an output that was made from something else aside first.

    Args:
        served: name of each model that the run serves to the stage → its identity.
    Raises:
        UserError: another version of Rubricworks started the run.
    """
    refuse_other_records(run)
    made_by = {
        "stage": stage,
        "record": RECORD_VERSION,
        "version": __version__,
        "config": digest_of(config),
        "inputs": {name: output_digest(path) for name, path in sorted(inputs.items())},
    }
    if versions := config.versions() | {f"serve.{name}": identity for name, identity in sorted(served.items())}:
        made_by["versions"] = versions
    out = run / stage
    made_from = out / MADE_FROM
    if made_from.exists() and read_record(made_from) != made_by:
        set_aside(out, run)
    out.mkdir(parents=True, exist_ok=True)
    if not made_from.exists():
        write_atomic(made_from, canonical_json(made_by).encode())
    return Job(stage=stage, run=run, out=out, inputs=inputs, made_by=made_by)


def set_aside(out: Path, run: Path) -> None:
    """Move a stage's finished or partial output to `replaced/`, where it can still be inspected.

    Images that no committed row names are dropped.
    """
    made_from = read_record(out / MADE_FROM)
    target = run / "replaced" / f"{out.name}-{digest_of(made_from)[:8]}-{time.time_ns()}"
    target.parent.mkdir(exist_ok=True)
    os.rename(out, target)
    ResponseImages(target / IMAGES).prune()


def is_done(job: Job) -> bool:
    return (job.out / DONE).exists()


def close_job(job: Job, seconds: float) -> None:
    """Drop images that no table names, write the stage's ledger line and mark the output complete."""
    ResponseImages(job.out / IMAGES).prune()
    job.write_ledger_line(job.figures, seconds)
    write_atomic(job.out / DONE, canonical_json({**job.made_by, "digest": content_digest(job.out)}).encode())


def output_digest(path: Path) -> str:
    """Return the digest that a finished stage recorded for its output.

    Raises:
        UserError: the stage has not finished.
    """
    done = path / DONE
    if not done.exists():
        raise UserError(f"{path}: the {path.name} stage has not finished; run it first")
    return str(read_record(done)["digest"])


def content_digest(folder: Path) -> str:
    """Compute the digest of a stage's output folder."""
    if (folder / MANIFEST).exists():
        return read_manifest(folder).digest
    # A milestone counts by its name and config, not its weights: the same steps lead to the same model.
    model_files = [*(folder / "model").rglob("*"), *(folder / "milestones").glob("*/config.json")]
    # `done.json` holds this digest, and is not part of it.
    return files_digest(model_files or [path for path in folder.glob("*.json") if path.name != DONE], folder)


def model_dir(output: Path) -> Path:
    """Return the Hugging Face model folder inside a training stage's output."""
    return output / "model"
