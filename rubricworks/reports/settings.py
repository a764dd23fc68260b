"""What ran: the recipe as text, the models it names, the tables it made, the commands that go on from here."""

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from rubricworks.reports.run_folder import table_rows
from rubricworks.tracking.connection import TrackingConfig, tracking_uri


class NamedModel(NamedTuple):
    """Who does what, and where it is asked for it; a committee is one entry."""

    role: str
    models: str
    where: str


class TableCount(NamedTuple):
    what: str
    rows: int
    made_with: str
    """Models and prompt versions."""


class Command(NamedTuple):
    purpose: str
    text: str


def recipe_text(recipe: dict[str, Any]) -> str:
    """As YAML, without passwords in URLs."""
    return _without_secrets(yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True, width=96)) if recipe else ""


def named_models(recipe: dict[str, Any]) -> list[NamedModel]:
    """Every endpoint of the recipe, and the students."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for role, model, url in _endpoints(recipe, ()):
        grouped.setdefault((role, url), []).append(model)
    models = [NamedModel(role, ", ".join(names), url) for (role, url), names in grouped.items()]
    student = (recipe.get("warm_up") or {}).get("student")
    if student:
        models.append(NamedModel("student", str(student), "trained in this run"))
    genrm = (recipe.get("genrm") or {}).get("student")
    if genrm:
        models.append(NamedModel("GenRM student", str(genrm), "trained in this run"))
    oracle = (recipe.get("evaluation") or {}).get("oracle")
    if oracle:
        models.append(NamedModel("evaluation oracle", "", _without_secrets(str(oracle))))
    return models


def _endpoints(node: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """(role, model, URL) of every endpoint below."""
    if isinstance(node, dict):
        if isinstance(node.get("model"), str) and isinstance(node.get("url"), str):
            yield " ".join(path).replace("_", " "), node["model"], _without_secrets(node["url"])
            return
        for name, child in node.items():
            yield from _endpoints(child, (*path, str(name)))
    elif isinstance(node, list):
        for child in node:
            yield from _endpoints(child, path)


class MadeTable(NamedTuple):
    """A table of which the page tells who made its rows."""

    stage: str
    what: str
    column: str
    """Who made a row."""


def table_counts(
    run: Path, made: Sequence[MadeTable], samples: str = "prepare", noun: str = "image"
) -> list[TableCount]:
    """What the stages made, counted from the tables themselves.

    Args:
        samples: the stage whose table of samples is counted by split.
        noun: what a sample is.
    """
    splits = Counter(row["split"] for row in table_rows(run / samples, ["split"]))
    counts = [TableCount(f"{split.replace('_', '-')} {noun}s", rows, "") for split, rows in sorted(splits.items())]
    for stage, what, writer in made:
        made_with: Counter[tuple[str, str]] = Counter(
            (row[writer], row["prompt_version"]) for row in table_rows(run / stage, [writer, "prompt_version"])
        )
        if made_with:
            told = ", ".join(
                f"{model} ({rows})" if len(made_with) > 1 else model for (model, _), rows in sorted(made_with.items())
            )
            prompts = ", ".join(sorted({version for _, version in made_with}))
            counts.append(TableCount(what, made_with.total(), f"{told}; prompt {prompts}"))
    return counts


def resume_command(run: Path) -> Command:
    return Command(
        "Continue this run, or make its report again",
        f"rubricworks run --resume {shlex.quote(run.name)} --runs {shlex.quote(str(run.parent))}",
    )


def compare_command(run: Path, recipe: dict[str, Any]) -> Command:
    uri = tracking_uri(TrackingConfig(**(recipe.get("tracking") or {})), run.parent)
    shown = _without_secrets(uri)
    if uri.startswith(("http://", "https://")):
        return Command("Compare runs in MLflow", f"open {shown}")
    return Command("Compare runs in MLflow", f"mlflow ui --backend-store-uri {shlex.quote(shown)}")


def _without_secrets(uri: str) -> str:
    return re.sub(r"(\w+://)[^/@\s]+@", r"\1***@", uri)
