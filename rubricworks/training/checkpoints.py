"""Checkpoints of a training run: the newest complete one, and a check that it belongs to this run."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from rubricworks.storage import files_digest
from rubricworks.training.processes import agreed, is_main

if TYPE_CHECKING:
    from transformers import Trainer

_RUN_FILE = "training.json"
MILESTONES = "milestones"


def run_digest(*parts: object) -> str:
    """Identity of a training run: equal parts continue each other's checkpoints."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def model_digest(model: str | Path) -> str:
    """Identity of the model that a training starts from: what its folder holds, wherever that lies, or its name.

    The main process reads the folder, and tells the others.
    """
    folder = Path(model)
    if not folder.is_dir():
        return str(model)
    return agreed(files_digest(folder.glob("*"), folder) if is_main() else "")


def last_checkpoint(out_dir: Path) -> Path | None:
    """The newest complete checkpoint; a kill while saving leaves one without its state file, written last."""
    found = []
    for folder in Path(out_dir).glob("checkpoint-*"):
        try:
            state = json.loads((folder / "trainer_state.json").read_text())
        except (OSError, ValueError):
            continue
        found.append((state["global_step"], folder))
    return max(found)[1] if found else None


def last_step(out_dir: Path) -> int:
    """The optimizer step that training would continue after; 0 when it would begin anew."""
    checkpoint = last_checkpoint(out_dir)
    return 0 if checkpoint is None else int(checkpoint.name.removeprefix("checkpoint-"))


def milestone_dirs(out_dir: Path) -> dict[int, Path]:
    """Step → model directory, in order: the copies of the policy that a training kept."""
    found = {int(path.name.removeprefix("step-")): path for path in (out_dir / MILESTONES).glob("step-*[0-9]")}
    return dict(sorted(found.items()))


def open_run(out_dir: Path, digest: str) -> Path | None:
    """Prepare the folder for this run and return the checkpoint to continue from, if any.

    Checkpoints of another run (a changed config, other data) are deleted, as are half-written ones.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    run_file = out_dir / _RUN_FILE
    try:
        same_run = json.loads(run_file.read_text())["digest"] == digest
    except (OSError, ValueError, KeyError, TypeError):
        same_run = False
    checkpoint = last_checkpoint(out_dir) if same_run else None
    for folder in out_dir.glob("checkpoint-*"):
        if not same_run or not (folder / "trainer_state.json").is_file():
            shutil.rmtree(folder)
    if not same_run:
        for made in ("model", MILESTONES):
            shutil.rmtree(out_dir / made, ignore_errors=True)
        run_file.write_text(json.dumps({"digest": digest}) + "\n")
    return checkpoint


def train_from(trainer: "Trainer", checkpoint: Path | None, *, stopped: bool = False) -> None:
    """Train to the end, from the checkpoint if there is one.

    Asked to resume what is finished (or was stopped for good), `Trainer.train` would make one step more, so then only
    the weights are loaded.
    """
    if checkpoint is None:
        trainer.train()
        return
    state = json.loads((checkpoint / "trainer_state.json").read_text())
    if stopped or state["global_step"] >= state["max_steps"]:
        trainer._load_from_checkpoint(str(checkpoint))
    else:
        trainer.train(resume_from_checkpoint=str(checkpoint))
