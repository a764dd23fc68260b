"""Runs side by side: what differs in their recipes, their scores with intervals, their curves."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.evaluation.scoreboard import Scoreboard
from rubricworks.platform_api.problems import BadRequest
from rubricworks.platform_api.schemas.runs import ComparisonBody, CurveBody, RunBody, ScoreRowBody, SettingBody
from rubricworks.platform_api.services.run_results import STEPS, read_board
from rubricworks.platform_api.services.runs import get_run
from rubricworks.redaction import redact
from rubricworks.runs.store import RunStore, StoredFile
from rubricworks.runtime.store.run_state import CURVES_FILE, STATE
from rubricworks.storage.confined_files import UnreadableFile
from rubricworks.storage.plain_json import plain_object, plain_text
from rubricworks.strict_yaml import parse_yaml

MOST_RUNS = 8
RECIPE = "recipe.yaml"
_MOST_SETTINGS = 5_000
_MOST_POINTS = 500
"""Points of a curve that an answer has; longer ones are averaged."""
_MOST_BYTES = 8 << 20
"""Bytes at the end of a file of curves that are read."""


async def compare_runs(session: AsyncSession, store: RunStore, names: Sequence[str]) -> ComparisonBody:
    """Two to eight runs side by side, in the order in which they are named.

    Raises:
        BadRequest: there are fewer, or more.
        NotFound: there is no run of a name.
    """
    names = list(dict.fromkeys(names))
    if not 2 <= len(names) <= MOST_RUNS:
        raise BadRequest(f"run: {len(names)} runs are chosen; choose 2 to {MOST_RUNS} to compare")
    runs = [await get_run(session, name) for name in names]
    read = [await asyncio.to_thread(_read, store, name) for name in names]
    return ComparisonBody(
        runs=[RunBody.model_validate(run) for run in runs],
        settings=settings_of([settings for settings, _, _ in read]),
        scores=_scores([board for _, board, _ in read]),
        curves=[curve for _, _, curves in read for curve in curves],
    )


def _read(store: RunStore, run: str) -> tuple[dict[str, str], Scoreboard | None, list[CurveBody]]:
    files = store.files(run)
    return read_settings(store, run), read_board(store, run, files), read_curves(store, run, files)


def read_recipe(store: RunStore, run: str) -> str:
    """A run's recipe as text, without secrets; empty if it has none. Blocks."""
    try:
        content = store.read(run, RECIPE)
    except UnreadableFile:
        return ""
    return redact(plain_text((content or b"").decode(errors="replace")))


def read_settings(store: RunStore, run: str) -> dict[str, str]:
    """Fields of a run's recipe by their paths, each value as text. Blocks."""
    try:
        value = parse_yaml(read_recipe(store, run).encode()).value
    except ValueError:
        return {}
    settings: dict[str, str] = {}
    _flatten("", value, settings)
    return settings


def settings_of(recipes: Sequence[Mapping[str, str]]) -> list[SettingBody]:
    """Fields of several recipes, those that differ first."""
    rows = []
    for field in dict.fromkeys(field for recipe in recipes for field in recipe):
        values = [recipe.get(field) for recipe in recipes]
        rows.append(SettingBody(field=field, values=values, differs=len(set(values)) > 1))
    return sorted(rows, key=lambda row: not row.differs)


def read_curves(store: RunStore, run: str, files: Mapping[str, StoredFile]) -> list[CurveBody]:
    """Curves of a run's trainings, the reward of each first. Blocks."""
    curves: list[CurveBody] = []
    for path in sorted(files):
        place = PurePosixPath(path).parts
        if len(place) == 2 and place[1] == STEPS:
            curves += _curves_in(store, run, place[0], path)
        elif len(place) == 3 and place[0] == STATE and place[2] == CURVES_FILE:
            curves += _curves_in(store, run, place[1], path)
    return sorted(curves, key=lambda curve: (curve.stage, curve.name != "reward"))


def _curves_in(store: RunStore, run: str, stage: str, path: str) -> list[CurveBody]:
    try:
        end = store.read_end(run, path, 0, _MOST_BYTES)
    except UnreadableFile:
        return []
    steps: dict[int, dict[str, Any]] = {}
    for line in (end[0] if end else b"").splitlines():
        try:
            row = plain_object(line)
        except ValueError:  # half a line at either end
            continue
        if type(step := row.pop("step", None)) is int:
            steps[step] = row
    names = dict.fromkeys(name for row in steps.values() for name in row)
    curves = []
    for name in names:
        points = [
            (float(step), float(value))
            for step, row in sorted(steps.items())
            if isinstance(value := row.get(name), int | float)
        ]
        if points:
            curves.append(CurveBody(run=run, stage=stage, name=name[:100], points=_thinned(points)))
    return curves


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    size = -(-len(points) // _MOST_POINTS)
    parts = [points[start : start + size] for start in range(0, len(points), size)]
    return [(part[-1][0], math.fsum(value for _, value in part) / len(part)) for part in parts]


def _flatten(path: str, value: Any, settings: dict[str, str]) -> None:
    if len(settings) >= _MOST_SETTINGS:
        return
    if isinstance(value, dict) and value:
        for name, part in value.items():
            _flatten(f"{path}.{name}" if path else str(name), part, settings)
    elif isinstance(value, list) and any(isinstance(part, dict | list) for part in value):
        for number, part in enumerate(value):
            _flatten(f"{path}[{number}]", part, settings)
    else:
        settings[path] = ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _scores(boards: Sequence[Scoreboard | None]) -> list[ScoreRowBody]:
    """Headline figures of each run's trained model with its gain over the base; then every other figure."""
    titles: dict[str, str] = {}
    for board in boards:
        if board is not None and board.candidate is not None and (scores := board.scores(board.candidate)):
            figures = [figure for figure in board.headlines if figure in scores.means]
            titles |= {figure: board.title(figure) for figure in (*figures, *scores.means) if figure not in titles}
    return [
        ScoreRowBody(
            figure=figure,
            title=title,
            values=[board.mean(board.candidate, figure) if board and board.candidate else None for board in boards],
            gains=[board.gain(board.candidate, figure) if board and board.candidate else None for board in boards],
        )
        for figure, title in titles.items()
    ]
