"""How far a run is that another process makes, from what it has left in its folder so far."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from statistics import mean

from rubricworks.claims.rlr3_folder import RECIPE, is_finished
from rubricworks.recipe_file import load_recipe, recipe_path
from rubricworks.reports.formats import duration
from rubricworks.reports.run_folder import read_ledger

_TAIL = 4096
_WIDTH = 80


def stage_now(run: Path) -> str:
    """The stage that wrote to its log last."""
    logs = [path for path in (run / "logs").glob("*.log") if path.stem != "kfp"]
    return max(logs, key=lambda path: path.stat().st_mtime_ns).stem if logs else "starting"


def state_line(run: Path, log: Path) -> str:
    """The stage now, how many are done, and the last that the run said."""
    stage, done = stage_now(run), len(list(run.glob("*/done.json")))
    said = last_words(log)
    said = said.partition("|")[2].strip() if said.startswith(stage) else ""
    return f"{stage} ({done} of {_stages()} stages done)" + (f" {said[:_WIDTH]}" if said else "")


def last_words(log: Path) -> str:
    """The last line of a log."""
    if not log.is_file():
        return "it said nothing"
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL))
        lines = file.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")


def time_left(run: Path, folders: Mapping[int, Path]) -> str:
    """What this run still takes by the stages of those that are finished; nothing is said before one is."""
    here = _seconds(run)
    finished = [seconds for folder in folders.values() if is_finished(folder) and (seconds := _seconds(folder))]
    if not finished:
        return ""
    left = mean(sum(took for stage, took in seconds.items() if stage not in here) for seconds in finished)
    return f", about {duration(left)} left"


def _seconds(run: Path) -> dict[str, float]:
    """Stage → what it took, of the stages that are done."""
    return {str(entry["stage"]): float(entry.get("seconds") or 0) for entry in read_ledger(run)}


@cache
def _stages() -> int:
    return len(load_recipe(recipe_path(RECIPE)).stage_configs())
