"""Kill -9 a run at given moments and resume it, time and again; and what it must end with whatever happened."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from tiny_run import Run

Moment = Callable[[Path], bool]
Kills = Mapping[str, Sequence[tuple[str, Moment]]]
"""Stage → how it is killed (the `stage`'s process, the `run`, or `everything`), and when."""

_PRODUCTS = [
    *("part-*.parquet", ".manifest.json", "done.json", "*model.safetensors", "tokenizer.json", "config.json"),
    *("steps.jsonl", "alarm.json", "summary.json", "promotion.json", "step-*.json", "statistics.json"),
    *("scores.json", "audit.json", "genrm.json"),
]


def there(pattern: str) -> Moment:
    """Moment at which a file exists, below the run's folder or beside it."""
    return lambda run: any(run.glob(pattern))


def saved(checkpoint: str) -> Moment:
    """Moment at which a checkpoint is complete: its state comes last."""

    def is_whole(run: Path) -> bool:
        try:
            return bool(json.loads((run / checkpoint / "trainer_state.json").read_text()))
        except (OSError, ValueError):
            return False

    return is_whole


def run_with_kills(folder: Path, started: Sequence[str], kills: Kills) -> str:
    """Output of a run that is killed at every moment, and then runs to its end.

    Kubeflow Pipelines may run the branches of a DAG in any order, so the stage that comes is killed.
    """
    output, left = "", {stage: list(moments) for stage, moments in kills.items()}
    while left:
        run = Run(folder.parent, *started)
        stage = run.wait_for_one({stage: partial(moments[0][1], folder) for stage, moments in left.items()})
        kill(run, folder, stage, left[stage].pop(0)[0])
        left = {stage: moments for stage, moments in left.items() if moments}
        output += run.output
        started = ["--resume", folder.name]
    return output + Run(folder.parent, *started).finish()


def kill(run: Run, folder: Path, stage: str, how: str) -> None:
    if how == "stage":
        run.kill_stage(stage)
        assert run.process.wait() == 2
        assert f"stage {stage} failed: it was killed from outside (SIGKILL)" in run.output
        assert f"rubricworks run --resume {folder.name}" in run.output.splitlines()[-1]
    elif how == "run":
        run.kill_run()
    else:
        run.kill_everything()
    run.wait_until_gone()
    assert not (folder / stage / "done.json").exists(), f"{stage} was done before it was killed"


def products(run: Path, stages: Iterable[str]) -> dict[str, bytes]:
    """Products that must not depend on kills: tables, weights, figures, and the digests of all outputs.

    A report's own folder is not among them: its summary says how long everything took.
    """
    all_files = (file for stage in stages for name in _PRODUCTS for file in (run / stage).rglob(name))
    files = (file for file in all_files if not any(part.startswith("checkpoint-") for part in file.parts))
    return {str(file.relative_to(run)): file.read_bytes() for file in files}


def differing(written: dict[str, bytes], expected: dict[str, bytes]) -> list[str]:
    return sorted(name for name in written.keys() | expected.keys() if written.get(name) != expected.get(name))


def continued_after(title: str, output: str) -> list[int]:
    """The steps of the checkpoints that a training took up, attempt by attempt."""
    return [int(line.split()[-1]) for line in output.splitlines() if f"{title} continues after step" in line]
