"""The settings of a run for its page: recipe text, models, table counts, and follow-up commands."""

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from rubricworks.redaction import redact
from rubricworks.reports.run_folder import table_rows
from rubricworks.tracking.connection import TrackingConfig, tracking_uri


class RecipeModel(NamedTuple):
    """A role, its models and their endpoint; a committee is one entry."""

    role: str
    models: str
    where: str


class TableCount(NamedTuple):
    name: str
    rows: int
    sources: str
    """Models and prompt versions."""


class Command(NamedTuple):
    purpose: str
    text: str


def recipe_text(recipe: dict[str, Any]) -> str:
    """The recipe as YAML, without passwords in URLs."""
    return redact(yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True, width=96)) if recipe else ""


def recipe_models(recipe: dict[str, Any]) -> list[RecipeModel]:
    """All endpoints of the recipe, and the students."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for role, model, url in _endpoints(recipe, ()):
        grouped.setdefault((role, url), []).append(model)
    models = [RecipeModel(role, ", ".join(names), url) for (role, url), names in grouped.items()]
    student = (recipe.get("warm_up") or {}).get("student")
    if student:
        models.append(RecipeModel("student", str(student), "trained in this run"))
    genrm = (recipe.get("genrm") or {}).get("student")
    if genrm:
        models.append(RecipeModel("GenRM student", str(genrm), "trained in this run"))
    evaluation = recipe.get("evaluation") or {}
    oracle = evaluation.get("oracle") or ((evaluation.get("scorers") or {}).get("oracle") or {}).get("url")
    if oracle:
        models.append(RecipeModel("evaluation oracle", "", redact(str(oracle))))
    return models


def _endpoints(node: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """Yield (role, model, URL) of every endpoint below a node."""
    if isinstance(node, dict):
        if isinstance(node.get("model"), str) and isinstance(node.get("url"), str):
            yield " ".join(path).replace("_", " "), node["model"], redact(node["url"])
            return
        for name, child in node.items():
            yield from _endpoints(child, (*path, str(name)))
    elif isinstance(node, list):
        for child in node:
            yield from _endpoints(child, path)


class CountedTable(NamedTuple):
    """A table whose rows the page counts by the model that wrote them."""

    stage: str
    name: str
    column: str
    """The column with the model."""


def table_counts(
    run: Path, tables: Sequence[CountedTable], samples: str = "prepare", noun: str = "image"
) -> list[TableCount]:
    """Row counts of the stages' tables, read from the tables themselves.

    Args:
        samples: the stage whose table of samples is counted by split.
        noun: one sample in the page's words, such as "image".
    """
    splits = Counter(row["split"] for row in table_rows(run / samples, ["split"]))
    counts = [TableCount(f"{split.replace('_', '-')} {noun}s", rows, "") for split, rows in sorted(splits.items())]
    for stage, name, column in tables:
        sources: Counter[tuple[str, str]] = Counter(
            (row[column], row["prompt_version"]) for row in table_rows(run / stage, [column, "prompt_version"])
        )
        if sources:
            models = ", ".join(
                f"{model} ({rows})" if len(sources) > 1 else model for (model, _), rows in sorted(sources.items())
            )
            prompts = ", ".join(sorted({version for _, version in sources}))
            counts.append(TableCount(name, sources.total(), f"{models}; prompt {prompts}"))
    return counts


def resume_command(run: Path) -> Command:
    return Command(
        "Continue this run, or make its report again",
        f"rubricworks run --resume {shlex.quote(run.name)} --runs {shlex.quote(str(run.parent))}",
    )


def compare_command(run: Path, recipe: dict[str, Any]) -> Command:
    uri = tracking_uri(TrackingConfig(**(recipe.get("tracking") or {})), run.parent)
    public_uri = redact(uri)
    if uri.startswith(("http://", "https://")):
        return Command("Compare runs in MLflow", f"open {public_uri}")
    return Command("Compare runs in MLflow", f"mlflow ui --backend-store-uri {shlex.quote(public_uri)}")
