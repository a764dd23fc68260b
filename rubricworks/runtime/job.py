"""What a running stage is given: where its inputs are, where to write, whom to tell.

A stage's output folder holds `made_from.json` (what it is being made from) from the first moment and `done.json` (the
same, with the digest of the result) at the end. A folder made from something else is moved aside, never overwritten;
one that is done is not made again. So running a pipeline a second time continues where it stopped.
"""

import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rubricworks import __version__
from rubricworks.data.manifest import read_manifest
from rubricworks.errors import UserError
from rubricworks.kubernetes.work import StageWork
from rubricworks.llm import ChatClient, Endpoint
from rubricworks.runtime.calls import StageCalls
from rubricworks.runtime.config import StageConfig, canonical_json, digest_of
from rubricworks.runtime.progress import Progress
from rubricworks.storage import files_digest, write_atomic

DONE = "done.json"
HANDED_ON = "handed_on.json"
"""What a stage hands on by value, beside the URI of its output: an object of strings."""


@dataclass
class Job:
    """One stage of one run."""

    stage: str
    run: Path
    out: Path
    inputs: dict[str, Path]
    made_by: dict[str, Any]
    """Stage, code version, digest of the configuration, digests of the inputs."""
    figures: dict[str, Any] = field(default_factory=dict)
    """What the stage wants said of itself in the ledger: rows, rejected, steps."""
    work: StageWork | None = None
    """What `launch` was asked for, so that other pods can be asked for it too."""
    in_parts: bool = False
    """Whether the stage may be shared out over pods (`stage_table`)."""
    calls: StageCalls = field(init=False)

    def __post_init__(self) -> None:
        self.calls = StageCalls(self.run, self.stage)

    def progress(self, total: int, unit: str) -> Progress:
        return Progress(self.stage, total, unit, clients=self.calls.clients)

    def client(self, endpoint: Endpoint, purpose: str) -> ChatClient:
        """A client whose calls are cached for the run, and counted in its ledger against its budget."""
        return self.calls.client(endpoint, purpose)

    def void(self) -> None:
        """Nothing can be built on what was made: it stays to be looked at, and the next attempt begins anew."""
        write_atomic(self.out / "made_from.json", canonical_json({**self.made_by, "void": True}).encode())

    def note(self, figures: dict[str, Any], seconds: float) -> None:
        """Write the stage's line of the ledger."""
        line = {"stage": self.stage, "seconds": round(seconds, 3), **figures}
        with (self.run / "ledger.jsonl").open("a") as ledger:
            ledger.write(json.dumps(line) + "\n")

    def scratch(self, name: str) -> Path:
        """A folder that lives beside the output and may vary between runs."""
        folder = self.run / "scratch" / self.stage / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def open_job(stage: str, config: StageConfig, run: Path, inputs: dict[str, Path]) -> Job:
    """Prepare the stage's folder and move aside what was made from something else."""
    made_by = {
        "stage": stage,
        "version": __version__,
        "config": digest_of(config),
        "inputs": {name: output_digest(path) for name, path in sorted(inputs.items())},
    }
    out = run / stage
    plan = out / "made_from.json"
    if plan.exists() and json.loads(plan.read_text()) != made_by:
        set_aside(out, run)
    out.mkdir(parents=True, exist_ok=True)
    if not plan.exists():
        write_atomic(plan, canonical_json(made_by).encode())
    return Job(stage=stage, run=run, out=out, inputs=inputs, made_by=made_by)


def set_aside(out: Path, run: Path) -> None:
    """Move what a stage made, or began, to where it can still be looked at."""
    made_from = json.loads((out / "made_from.json").read_text())
    aside = run / "replaced" / f"{out.name}-{digest_of(made_from)[:8]}-{time.time_ns()}"
    aside.parent.mkdir(exist_ok=True)
    os.rename(out, aside)


def is_done(job: Job) -> bool:
    return (job.out / DONE).exists()


def close_job(job: Job, seconds: float) -> None:
    """Mark the output complete and write the stage's line of the ledger."""
    job.note(job.figures, seconds)
    write_atomic(job.out / DONE, canonical_json({**job.made_by, "digest": content_digest(job.out)}).encode())


def output_digest(path: Path) -> str:
    """Digest of what a finished stage wrote."""
    done = path / DONE
    if not done.exists():
        raise UserError(f"{path}: the {path.name} stage has not finished; run it first")
    return str(json.loads(done.read_text())["digest"])


def content_digest(folder: Path) -> str:
    """Digest of what lies in a stage's folder."""
    if (folder / "manifest.json").exists():
        return read_manifest(folder).digest
    # A milestone counts by its name: the same steps lead to the same model.
    made = [*(folder / "model").glob("*"), *(folder / "milestones").glob("*/config.json")]
    return files_digest(made or folder.glob("*.json"), folder)


def model_dir(output: Path) -> Path:
    """The Hugging Face folder in the output of a stage that makes a model."""
    return output / "model"
