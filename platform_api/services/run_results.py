"""Results of a run as lists show them, read from its files: reward, win rate, cost, duration, the registered model."""

from collections.abc import Mapping
from statistics import fmean
from typing import NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from rubricworks.data.ledger import LEDGER_FILE, parse_ledger
from rubricworks.evaluation.scoreboard import SCORES_FILE, WIN, Scoreboard
from rubricworks.llm.spending import SPENDING_FILE
from rubricworks.platform_api.services.run_storage import run_dollars
from rubricworks.reports.run_folder import Promotion
from rubricworks.runs.records import RunRecord
from rubricworks.runs.store import RunStore, StoredFile
from rubricworks.storage.confined_files import UnreadableFile
from rubricworks.storage.plain_json import plain_json, plain_object, plain_text

T = TypeVar("T", bound=BaseModel)

STEPS = "steps.jsonl"
BOARD = f"score/{SCORES_FILE}"
LAST_STEPS = 10
"""Steps whose mean reward is that of the run."""
_STEPS_BYTES = 16 * 1024
_DECISION = "promote/promotion.json"


class RunResults(NamedTuple):
    """Results of a run; None for those that it has not, or not yet."""

    reward: float | None = None
    win_rate: float | None = None
    win_low: float | None = None
    win_high: float | None = None
    dollars: float | None = None
    seconds: float | None = None
    model: str | None = None
    version: int | None = None


def read_results(store: RunStore, record: RunRecord, files: Mapping[str, StoredFile]) -> RunResults:
    """Results of a run; a file that cannot be read has none. Blocks."""
    run = record.name
    win = None
    if (board := read_board(store, run, files)) is not None and board.candidate is not None:
        win = board.mean(board.candidate, WIN)
    decision = _read_value(store, run, files, _DECISION, Promotion)
    version = decision.version if decision else None
    return RunResults(
        reward=_last_reward(store, run, files),
        win_rate=win.value if win else None,
        win_low=win.low if win else None,
        win_high=win.high if win else None,
        dollars=run_dollars(store, record, files) if SPENDING_FILE in files or record.progress else None,
        seconds=_seconds(store, run, files),
        model=plain_text(decision.model_name)[:200] or None if decision else None,
        version=int(version) if version is not None and version.isdecimal() and len(version) < 10 else None,
    )


def read_board(store: RunStore, run: str, files: Mapping[str, StoredFile]) -> Scoreboard | None:
    """Scoreboard of a run's evaluation; None if there is none, or it is damaged. Blocks."""
    return _read_value(store, run, files, BOARD, Scoreboard)


def _read_value(store: RunStore, run: str, files: Mapping[str, StoredFile], path: str, kind: type[T]) -> T | None:
    try:
        content = store.read(run, path) if path in files else None
        return kind.model_validate(plain_json(content)) if content else None
    except (UnreadableFile, ValidationError, ValueError):
        return None


def _last_reward(store: RunStore, run: str, files: Mapping[str, StoredFile]) -> float | None:
    """Mean reward of the last steps of the training that was written last."""
    trainings = [path for path in files if path.endswith(f"/{STEPS}") and path.count("/") == 1]
    if not trainings:
        return None
    last = max(trainings, key=lambda path: files[path].modified)
    try:
        end = store.read_end(run, last, 0, _STEPS_BYTES)
    except UnreadableFile:
        return None
    rewards = [row.get("reward") for row in _objects(end[0] if end else b"")]
    judged = [float(reward) for reward in rewards if isinstance(reward, int | float)]
    return fmean(judged[-LAST_STEPS:]) if judged else None


def _seconds(store: RunStore, run: str, files: Mapping[str, StoredFile]) -> float | None:
    try:
        content = store.read(run, LEDGER_FILE) if LEDGER_FILE in files else None
    except UnreadableFile:
        return None
    seconds = [entry.get("seconds") for entry in parse_ledger(content or b"")]
    known = [float(of_stage) for of_stage in seconds if isinstance(of_stage, int | float)]
    return sum(known) if known else None


def _objects(content: bytes) -> list[dict[str, object]]:
    """Objects of the lines; half a line at either end is left out."""
    rows = []
    for line in content.splitlines():
        try:
            rows.append(plain_object(line))
        except ValueError:
            continue
    return rows
