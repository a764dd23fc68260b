"""Progress of a run in another process, read from its folder: stage, last line, time left."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from statistics import mean

from rubricworks.claims.planned_runs import PlannedRun
from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.reports.formats import duration
from rubricworks.reports.run_folder import read_ledger
from rubricworks.runtime.stage_table import NOT_REUSABLE

_TAIL = 4096
_WIDTH = 80


def current_stage(run: Path) -> str:
    """The stage that wrote to its log last."""
    logs = [path for path in (run / "logs").glob("*.log") if path.stem != "kfp"]
    return max(logs, key=lambda path: path.stat().st_mtime_ns).stem if logs else "starting"


def progress_line(run: PlannedRun) -> str:
    """The current stage, the number of finished ones, and the run's last line."""
    stage, done = current_stage(run.folder), len(list(run.folder.glob("*/done.json")))
    line = last_line(run.log)
    message = line.partition("|")[2].strip() if line.startswith(stage) else ""
    stages = _count_stages(run.recipe, run.arm)
    return f"{stage} ({done} of {stages} stages done)" + (f" {message[:_WIDTH]}" if message else "")


def last_line(log: Path) -> str:
    """The last line of a log that is not blank."""
    if not log.is_file():
        return "it said nothing"
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL))
        lines = file.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")


def time_left(run: PlannedRun, runs: Sequence[PlannedRun]) -> str:
    """Estimate of the time left, from the stages of finished runs of the same kind; empty before one is finished.

    All arms are of one kind: they share what is long before the training.
    """
    done = _stage_seconds(run.folder)
    others = [one for one in runs if one.folder != run.folder and one.is_finished]
    same_kind = [one for one in others if (one.arm is None) == (run.arm is None)]
    times = [seconds for one in same_kind if (seconds := _stage_seconds(one.folder))]
    if not times:
        return ""
    rest = mean(sum(took for stage, took in seconds.items() if stage not in done) for seconds in times)
    return f", about {duration(rest)} left"


def _stage_seconds(run: Path) -> dict[str, float]:
    """Stage → seconds that it took, for each finished stage."""
    return {str(entry["stage"]): float(entry.get("seconds") or 0) for entry in read_ledger(run)}


@cache
def _count_stages(recipe: str, arm: str | None) -> int:
    stages = load_recipe(recipe_path(recipe)).stage_configs().keys()
    return len(stages if arm is None else stages - NOT_REUSABLE)
