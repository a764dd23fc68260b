"""How far a run is that another process makes, from what it has left in its folder so far."""

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


def stage_now(run: Path) -> str:
    """The stage that wrote to its log last."""
    logs = [path for path in (run / "logs").glob("*.log") if path.stem != "kfp"]
    return max(logs, key=lambda path: path.stat().st_mtime_ns).stem if logs else "starting"


def state_line(run: PlannedRun) -> str:
    """The stage now, how many are done, and the last that the run said."""
    stage, done = stage_now(run.folder), len(list(run.folder.glob("*/done.json")))
    said = last_words(run.log)
    said = said.partition("|")[2].strip() if said.startswith(stage) else ""
    stages = _stages(run.recipe, run.arm)
    return f"{stage} ({done} of {stages} stages done)" + (f" {said[:_WIDTH]}" if said else "")


def last_words(log: Path) -> str:
    """The last line of a log."""
    if not log.is_file():
        return "it said nothing"
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL))
        lines = file.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")


def time_left(run: PlannedRun, runs: Sequence[PlannedRun]) -> str:
    """What it still takes by the stages of those of its kind that are finished; nothing is said before one is.

    Arms are of one kind, whichever they are: they share what is long before the training.
    """
    here = _seconds(run.folder)
    others = [one for one in runs if one.folder != run.folder and one.is_finished]
    alike = [one for one in others if (one.arm is None) == (run.arm is None)]
    finished = [seconds for one in alike if (seconds := _seconds(one.folder))]
    if not finished:
        return ""
    left = mean(sum(took for stage, took in seconds.items() if stage not in here) for seconds in finished)
    return f", about {duration(left)} left"


def _seconds(run: Path) -> dict[str, float]:
    """Stage → what it took, of the stages that are done."""
    return {str(entry["stage"]): float(entry.get("seconds") or 0) for entry in read_ledger(run)}


@cache
def _stages(recipe: str, arm: str | None) -> int:
    stages = load_recipe(recipe_path(recipe)).stage_configs().keys()
    return len(stages if arm is None else stages - NOT_REUSABLE)
