"""Stages of a retraining that call models or train, replaced by quick ones; importing this module replaces them.

Each writes what the real stages after it read: a policy's folder, or the scores of champion and challenger. Finding
samples, preparing them, the champion, the gate and the registry stay real. QUICK_FAILURES names faults by stage, as
JSON: `mistake` (a user's), `transient` (a service's), `crash` (any other error), `lost` (the pod is killed), each for
one attempt that does not end at once.
"""

import json
import os
import signal
from pathlib import Path

from pydantic import BaseModel
from winning_scores import winning_scores

from rubricworks.errors import TransientError, UserError
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job
from rubricworks.runtime.stage_table import STAGES, Stage

REPLACED = ("caption_committee", "warm_up", "caption_student", "synthesize_rubrics", "train_policy", "score")


class _Config(StageConfig, extra="allow"):
    pass


class _QuickStage:
    Config = CaptionConfig = _Config

    def __init__(self, stage: str) -> None:
        self._stage = stage

    def run(self, config: BaseModel, job: Job) -> None:
        _fail(self._stage)
        if self._stage == "score":
            (job.out / "scores.json").write_text(winning_scores().model_dump_json())
        elif self._stage in ("warm_up", "train_policy"):
            (job.out / "model").mkdir()
            model = {"stage": self._stage, "inputs": job.made_by["inputs"]}
            (job.out / "model" / "config.json").write_text(json.dumps(model))
        else:
            (job.out / "made.json").write_text(json.dumps(job.made_by["inputs"]))


def _fail(stage: str) -> None:
    path = Path(os.environ.get("QUICK_FAILURES", "/dev/null"))
    faults = json.loads(path.read_text() or "{}")
    if not faults.get(stage):
        return
    fault = faults[stage].pop(0)
    path.write_text(json.dumps(faults))
    if fault == "lost":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "transient":
        raise TransientError("no MLflow server at http://mlflow; test it")
    if fault == "mistake":
        raise UserError(f"{stage}.student: no such model; name another")
    if fault == "crash":
        raise RuntimeError("the connection was reset")


def _load(stage: Stage) -> object:
    return _QuickStage(stage.id) if stage.id in REPLACED else _load_real(stage)


_load_real = Stage.load
Stage.load = _load  # type: ignore[method-assign]
assert set(REPLACED) < set(STAGES)
