"""Checkpoints of a training run: the newest complete one and the digest of the run it belongs to."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rubricworks.storage import files_digest
from rubricworks.training.processes import broadcast, is_main, is_sharded

if TYPE_CHECKING:
    from transformers import Trainer

_RUN_FILE = "training.json"
MILESTONES = "milestones"


def run_digest(*parts: object) -> str:
    """Digest of a training run; runs with equal parts continue each other's checkpoints."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def model_digest(model: str | Path) -> str:
    """Digest of the files in a model folder, independent of its location, or the name of a Hub model.

    The main process reads the folder and broadcasts the digest.
    """
    folder = Path(model)
    if not folder.is_dir():
        return str(model)
    return broadcast(files_digest(folder.rglob("*"), folder) if is_main() else "")


def last_checkpoint(out_dir: Path) -> Path | None:
    """Return the newest complete checkpoint. The state file is written last, so an incomplete checkpoint has none."""
    checkpoints = []
    for folder in Path(out_dir).glob("checkpoint-*"):
        try:
            state = json.loads((folder / "trainer_state.json").read_text())
        except (OSError, ValueError):
            continue
        checkpoints.append((state["global_step"], folder))
    return max(checkpoints)[1] if checkpoints else None


def last_step(out_dir: Path) -> int:
    """Optimizer step of the newest complete checkpoint; 0 if there is none."""
    checkpoint = last_checkpoint(out_dir)
    return 0 if checkpoint is None else int(checkpoint.name.removeprefix("checkpoint-"))


def milestone_dirs(out_dir: Path) -> dict[int, Path]:
    """Step → model directory of each milestone of a training, in step order."""
    milestones = {int(path.name.removeprefix("step-")): path for path in (out_dir / MILESTONES).glob("step-*[0-9]")}
    return dict(sorted(milestones.items()))


def open_run(out_dir: Path, digest: str) -> Path | None:
    """Prepare the folder for this run and return the checkpoint to continue from, if any.

    Incomplete checkpoints and those of another run (another config, other data) are deleted.
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
        for output in ("model", MILESTONES):
            shutil.rmtree(out_dir / output, ignore_errors=True)
        run_file.write_text(json.dumps({"digest": digest}) + "\n")
    return checkpoint


def load_renamed_weights(checkpoint: Path, model: Any) -> bool:
    """Load a checkpoint whose weights have other names than in memory; return False if it is not of that kind.

    Transformers saves LLaVA's and fused experts so. The Trainer loads by name, and only warns of those that it does
    not find.
    """
    if is_sharded() or not _has_renamed_weights(checkpoint, model):
        return False
    stored = type(model).from_pretrained(checkpoint, dtype=model.dtype)
    model.load_state_dict(stored.state_dict())
    return True


def _has_renamed_weights(checkpoint: Path, model: Any) -> bool:
    from safetensors import safe_open

    own = model.state_dict().keys()
    for file in checkpoint.glob("model*.safetensors"):
        with safe_open(file, framework="pt") as weights:
            if any(name not in own for name in weights.keys()):  # noqa: SIM118 - not a dictionary
                return True
    return False


def train_from(trainer: "Trainer", checkpoint: Path | None, *, stopped: bool = False) -> None:
    """Train to the end, from the checkpoint if there is one.

    `Trainer.train` makes one more step when it resumes a finished run, so for a finished or stopped run only the
    weights are loaded.
    """
    if checkpoint is None:
        trainer.train()
        return
    state = json.loads((checkpoint / "trainer_state.json").read_text())
    if stopped or state["global_step"] >= state["max_steps"]:
        trainer._load_from_checkpoint(str(checkpoint))
    else:
        trainer.train(resume_from_checkpoint=str(checkpoint))
