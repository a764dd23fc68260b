"""The default view of a stage: the small JSON files that it wrote, as tables."""

import json
from collections.abc import Iterator
from typing import Any

from rubricworks.reports.formats import MISSING, shortened
from rubricworks.reports.views.parts import FinishedStage, Table, View

_BOOKKEEPING = frozenset(
    {"made_from.json", "done.json", "plan.json", "manifest.json", "training.json", "handed_on.json"}
)
_MAX_FILE_BYTES = 100_000
_MAX_ROWS = 60
_SENTENCES = ("outcome", "state")
"""Fields that describe the outcome in words; the first present one becomes the view's sentence."""


def files_view(stage: FinishedStage) -> View:
    """One table per file: a list of similar objects by columns, anything else with one row per leaf."""
    tables: list[Table] = []
    values: dict[str, str] = {}
    for path in sorted(stage.out.glob("*.json")):
        if path.name in _BOOKKEEPING or path.stat().st_size > _MAX_FILE_BYTES:
            continue
        value = json.loads(path.read_bytes())
        title = path.stem.replace("_", " ").capitalize()
        if columns := _columns(value):
            rows = [tuple(_text(row[name]) for name in columns) for row in value]
            tables.append(Table(title, [name.capitalize() for name in columns], rows[:_MAX_ROWS]))
        else:
            leaves = list(_leaves(value))
            values |= dict(leaves)
            tables.append(Table(title, ("Name", "Value"), leaves[:_MAX_ROWS]))
    return View(sentence=next((values[name] for name in _SENTENCES if name in values), ""), tables=tables)


def _columns(value: Any) -> list[str]:
    """The fields of a list of objects with the same fields; empty for anything else."""
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        return []
    names = {tuple(one) for one in value}
    return list(names.pop()) if len(names) == 1 else []


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield (name, text) of every leaf of a JSON value, its name as `outer.inner`."""
    if isinstance(value, dict | list):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value, start=1):
            yield from _leaves(one, f"{name}.{key}" if name else str(key))
    else:
        yield name, _text(value)


def _text(value: Any) -> str:
    return MISSING if value is None else shortened(str(value))
