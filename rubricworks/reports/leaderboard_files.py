"""Leaderboards from and to files: the evaluations of runs and of `rubricworks evaluate`, the board in four forms."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from rubricworks.data.manifest import MANIFEST, canonical_json, read_manifest
from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.evaluation.leaderboard import Leaderboard, Source, leaderboard
from rubricworks.evaluation.scoreboard import LENGTH, read_scoreboard
from rubricworks.llm.spending import SPENDING_FILE, read_spending
from rubricworks.reports.leaderboard import Agreement, leaderboard_csv, leaderboard_markdown, leaderboard_page
from rubricworks.reports.run_folder import SOURCE, is_simulated
from rubricworks.storage import write_atomic

SAMPLE_STAGES = ("recap", "open_questions", "prepare_questions", "prepare")


def build_board(sources: Sequence[Path], *, against: str | None = None, every_figure: bool = False) -> Leaderboard:
    """Build the board of several evaluations.

    Raises:
        UserError: there is no score, or no model called `against`.
    """
    try:
        return leaderboard([read_source(place) for place in sources], against=against, every_figure=every_figure)
    except ValueError as error:
        raise UserError(f"{', '.join(map(str, sources))}: {error}") from error


def write_board(
    board: Leaderboard, out: Path, *, title: str, simulated: bool = False, agreements: Sequence[Agreement] = ()
) -> None:
    """Write the board's page, and its Markdown, CSV and JSON forms, into a folder."""
    page = leaderboard_page(board, title=title, simulated=simulated, agreements=agreements)
    out.mkdir(parents=True, exist_ok=True)
    write_atomic(out / "leaderboard.html", page.encode("utf-8", "replace"))
    write_atomic(out / "leaderboard.md", leaderboard_markdown(board).encode("utf-8", "replace"))
    write_atomic(out / "leaderboard.csv", leaderboard_csv(board).encode("utf-8", "replace"))
    write_atomic(out / "leaderboard.json", canonical_json(board.model_dump(mode="json")))


def read_source(place: Path) -> Source:
    """Tables of a run, of an evaluation's folder, or a table itself."""
    folder = place if (place / MANIFEST).is_file() else place / "score"
    if not (folder / MANIFEST).is_file() or read_manifest(folder).table != "scores":
        raise UserError(
            f"{place}: no finished scores; give a run, a folder of `rubricworks evaluate`, or a scores table"
        )
    home = folder.parent
    board = read_scoreboard(folder)
    responses = folder / "responses"
    counts: dict[str, int] = {}
    rows = list(read_rows(responses)) if (responses / MANIFEST).is_file() else []
    for row in rows:
        counts[row["model"]] = counts.get(row["model"], 0) + 1
    return Source(
        place.name,
        read_rows(folder),
        rows,
        _tasks(home),
        board.titles if board else {},
        _dollars(home, counts),
        [figure for figure in board.headlines if figure != LENGTH] if board else (),
        board.base if board else None,
    )


def _tasks(home: Path) -> dict[str, str]:
    """Sample → task, of the samples that were scored."""
    try:
        samples = Path(json.loads((home / SOURCE).read_bytes())["samples"])
    except (OSError, ValueError, KeyError):
        samples = next((home / stage for stage in SAMPLE_STAGES if (home / stage / MANIFEST).is_file()), home)
    if not (samples / MANIFEST).is_file() or read_manifest(samples).table != "samples":
        return {}
    rows = read_rows(samples, columns=["sample_id", "task"])
    return {row["sample_id"]: row["task"] for row in rows if row["task"]}


def _dollars(home: Path, responses: Mapping[str, int]) -> dict[str, float]:
    """Model → cost of a response, of endpoints with a price; by the endpoint's model or its only model's name."""
    costs: dict[str, float] = {}
    for row in read_spending(home / SPENDING_FILE):
        if row["purpose"] == "response" and row["cost"]:
            costs[row["model"]] = costs.get(row["model"], 0.0) + row["cost"]
    return {model: cost / responses[model] for model, cost in costs.items() if responses.get(model)}


def is_simulated_evaluation(place: Path) -> bool:
    """Return True if the scene world stood in for images or judges."""
    try:
        return bool(json.loads((place / SOURCE).read_bytes()).get("simulated")) or is_simulated(place)
    except (OSError, ValueError):
        return is_simulated(place)
