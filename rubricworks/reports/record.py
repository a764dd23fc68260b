"""Sections of every report about the run itself: time and money, failures, what ran, what to do next."""

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import yaml

from rubricworks.evaluation.audit.summary import SUMMARY_FILE as JUDGE_AUDIT
from rubricworks.llm.identity import IDENTITY_FILE, read_identities
from rubricworks.llm.served import EVENTS_FILE
from rubricworks.llm.spending import read_budget
from rubricworks.redaction import redact
from rubricworks.reports.costs import ModelCalls
from rubricworks.reports.formats import MISSING, dollars, duration, whole
from rubricworks.reports.page import Block
from rubricworks.reports.parts import Command, Fold, Heading, Html, Part, Pre, Table, Text
from rubricworks.reports.rendering import render_part
from rubricworks.reports.run_folder import NOUNS, RunFolder, read_rejected
from rubricworks.storage.plain_json import plain_object
from rubricworks.tracking.connection import TrackingConfig, tracking_uri

_TIMES = (
    "Time is that of attempts that finished; calls and cost are those of all attempts. Cached there: prompt tokens "
    "that the provider had cached, as it reports them, at their own price where `prices` gives one. "
    f"Cost {MISSING}: the models have no price in the recipe."
)
CALL_COLUMNS = ("Model", "Purpose", "Calls", "From cache", "Failed", "Tokens in", "Cached there", "Tokens out", "Cost")


class CountedTable(NamedTuple):
    """A table whose rows the page counts by the model that wrote them."""

    stage: str
    name: str
    column: str
    """The column with the model."""


_TABLES = (
    CountedTable("recap/captions", "reference captions written anew", "captioner"),
    CountedTable("recaption", "captions", "captioner"),
    CountedTable("write_exams", "exams", "writer"),
    CountedTable("caption_committee", "committee captions", "captioner"),
    CountedTable("peer_rubrics/caption_committee", "committee captions", "captioner"),
    CountedTable("caption_student", "student captions", "captioner"),
    CountedTable("synthesize_rubrics", "rubrics", "writer"),
    CountedTable("peer_rubrics", "rubrics", "writer"),
    CountedTable("write_checklists", "checklists", "writer"),
    CountedTable("write_prompt_rubrics", "rubrics", "writer"),
)


def warnings(run: RunFolder) -> Block | None:
    """Warnings of the stages, as the terminal showed them; None if there are none."""
    last = {entry["stage"]: entry for entry in run.ledger}
    rows = [
        (stage, redact(message))
        for stage, entry in last.items()
        if isinstance(messages := entry.get("warnings"), list)
        for message in messages
        if isinstance(message, str)
    ]
    if cut := _truncated(run):
        rows.append(cut)
    if not rows:
        return None
    return Block("warnings", "Warnings", [Table(("Stage", "Warning"), rows)], name="Warnings")


def _truncated(run: RunFolder) -> tuple[str, str] | None:
    """Stage and sentence about rollouts that have as many tokens as they may."""
    rollouts = run.recipe.get("policy", {}).get("algorithm", {}).get("rollouts", {})
    most = rollouts.get("max_new_tokens") if isinstance(rollouts, dict) else None
    if not isinstance(most, int):
        return None
    stage = next(iter(run.trainings), "train_policy")
    tokens = [row["tokens"] for row in run.rows(f"{stage}/rollouts", ["tokens"])]
    cut = sum(count >= most for count in tokens)
    if not cut:
        return None
    field = "policy.algorithm.rollouts.max_new_tokens"
    return stage, f"{whole(cut)} of {whole(len(tokens))} rollouts were cut off at {field} = {most}"


def costs(run: RunFolder) -> Block:
    """Time and cost of the stages, and calls by model."""
    if not run.costs:
        text = Text("The run's ledger is empty: no stage has finished.", "missing")
        return Block("costs", "Time and cost", [text], name="Cost")
    seconds, cost = sum(stage.seconds for stage in run.costs), sum(stage.cost for stage in run.costs)
    rows = [
        (stage.stage, duration(stage.seconds), stage.attempts, stage.calls, cost_of(run.calls, stage.stage))
        for stage in run.costs
    ]
    total = ("All stages", duration(seconds), None, sum(stage.calls for stage in run.costs), cost_of(run.calls))
    tokens = sum(call.prompt_tokens + call.completion_tokens for call in run.calls)
    budget = read_budget(run.path)
    spent = [
        *([f"{dollars(cost)} of {dollars(budget.dollars)} spent"] if budget.dollars else []),
        *([f"{whole(tokens)} of {whole(budget.tokens)} tokens used"] if budget.tokens else []),
    ]
    bars = render_part("stage_bars.html", costs=run.costs, longest=max(stage.seconds for stage in run.costs) or 1)
    parts: list[Part] = [
        Html(bars),
        Table(("Stage", "Time", "Attempts", "Calls", "Cost"), [*rows, total], total=True),
        *([Text(f"Budget: {', '.join(spent)}.")] if spent else []),
    ]
    if run.calls:
        calls = [(call.stage, *call_row(call)) for call in run.calls]
        parts.append(Fold("Calls by model", [Table(("Stage", *CALL_COLUMNS), calls)]))
    return Block("costs", "Time and cost", [*parts, Text(_TIMES, "quiet")], name="Cost")


def call_row(call: ModelCalls) -> tuple[str | float, ...]:
    return (
        call.model,
        call.purpose,
        call.calls,
        call.cached,
        call.errors,
        call.prompt_tokens,
        call.cached_tokens,
        call.completion_tokens,
        cost_of([call]),
    )


def cost_of(calls: Iterable[ModelCalls], stage: str | None = None) -> str:
    """Dollars of calls, or of a stage's; not $0 where tokens were sent to models without a price."""
    counted = [call for call in calls if stage in (None, call.stage)]
    cost = sum(call.cost for call in counted)
    return MISSING if not cost and any(call.prompt_tokens for call in counted) else dollars(cost)


def failures(run: RunFolder) -> Block:
    """Dead letters, and samples that were rejected."""
    noun, rejected = NOUNS[run.source], read_rejected(run.path, run.source)
    parts: list[Part] = [Text("No dead letters: every call was answered.")]
    if run.dead_letters:
        count = sum(letters.count for letters in run.dead_letters)
        text = "dead letters: calls that no retry or repair turn could mend. Their rows keep what the model answered."
        parts = [Text(f"{whole(count)} {text}"), letters_table(run, "")]
    if rejected:
        parts += [
            Heading(f"{noun.capitalize()}s that could not be used"),
            Table(("Reason", "Count", "For example"), rejected, note=f"All of them are in {run.source}/rejected."),
        ]
    else:
        parts.append(Text(f"No {noun} was rejected."))
    return Block("failures", "What failed", parts, name="Failures")


def letters_table(run: RunFolder, folder: str) -> Table:
    """Dead letters whose folder begins so."""
    rows = [
        (letters.stage, letters.purpose, letters.reason, letters.count, letters.example[:160], letters.folder)
        for letters in run.dead_letters
        if letters.folder.startswith(folder)
    ]
    return Table(("Stage", "Purpose", "Reason", "Count", "For example", "Where to look"), rows)


def what_ran(run: RunFolder) -> Block:
    """Models, what was made, digests of the stages, and the recipe."""
    parts: list[Part] = []
    if models := recipe_models(run.recipe):
        parts.append(Table(("Role", "Model", "Where"), models))
    identities = [
        (model, str(entry.identity or MISSING), entry.revision or MISSING, ", ".join(entry.prompts) or MISSING)
        for model, entries in read_identities(run.path / IDENTITY_FILE).items()
        for entry in entries
    ]
    if served := _served_models(run):
        served_columns = ("Name", "Model", "Ready after", "Served for", "Restarts", "GPU hours", "Ended because")
        parts += [Heading("Models that the run served"), Table(served_columns, served)]
    if identities:
        columns = ("Model", "Answers as", "Revision", "Prompts")
        parts += [Heading("What the models said they are"), Table(columns, identities)]
    if tables := list(_table_counts(run)):
        parts += [Heading("What was made"), Table(("Table", "Rows", "With"), tables)]
    if run.stage_records:
        digests = [
            (record.stage, f"version {record.version}", f"config {record.config[:16]}", f"output {record.digest[:16]}")
            for record in run.stage_records
        ]
        table = Table(("Stage", "Code", "Configuration", "Output"), digests)
        parts.append(Fold("Digests of the stages' configurations and outputs", [table]))
    if run.recipe:
        name = f": {run.recipe['name']}" if run.recipe.get("name") else ""
        text = redact(yaml.safe_dump(run.recipe, sort_keys=False, allow_unicode=True, width=96))
        parts.append(Fold(f"The recipe{name}, fields at their defaults left out", [Pre(text)]))
    else:
        text = (
            "No recipe.yaml in the run's folder: the stages were started on their own, or by a pipeline on a cluster."
        )
        parts.append(Text(text, "missing"))
    return Block("ran", "What ran", parts)


def _served_models(run: RunFolder) -> list[tuple[str | float, ...]]:
    """One row per time that the run served a model; a server that was killed with its run has no end."""
    path, rows = run.path / EVENTS_FILE, list[list[str | float]]()
    for line in path.read_text().splitlines() if path.is_file() else ():
        try:
            event = plain_object(line)
            row = next((row for row in reversed(rows) if row[0] == event["name"]), None)
            if event["event"] == "ready":
                ready = duration(float(event["ready_seconds"]))
                rows.append([event["name"], event["model"], ready, MISSING, 0, MISSING, MISSING])
            elif row is None:
                continue
            elif event["event"] == "restarted":
                row[4] = int(row[4]) + 1
            elif event["event"] == "stopped":
                row[3], row[5] = duration(float(event["seconds"])), f"{float(event['accelerator_hours']):.2f}"
                row[6] = str(event["reason"])
        except (ValueError, KeyError, TypeError):
            continue  # a line that was cut off
    return [tuple(row) for row in rows]


def recipe_models(recipe: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(role, models, where) of all endpoints of the recipe and of the students; a committee is one entry."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for role, model, url in _endpoints(recipe, ()):
        grouped.setdefault((role, url), []).append(model)
    models = [(role, ", ".join(names), url) for (role, url), names in grouped.items()]
    for section, role in (("warm_up", "student"), ("genrm", "GenRM student")):
        if student := (recipe.get(section) or {}).get("student"):
            models.append((role, str(student), "trained in this run"))
    evaluation = recipe.get("evaluation") or {}
    if oracle := ((evaluation.get("scorers") or {}).get("oracle") or {}).get("url"):
        models.append(("evaluation oracle", MISSING, redact(str(oracle))))
    return models


def _endpoints(node: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """Yield (role, model, URL) of every endpoint below a node."""
    if isinstance(node, dict):
        if isinstance(node.get("serve"), str):
            yield " ".join(path).replace("_", " "), node["serve"], "served by the run"
            return
        if isinstance(node.get("model"), str) and node.get("url"):
            urls = node["url"] if isinstance(node["url"], list) else [node["url"]]
            yield " ".join(path).replace("_", " "), node["model"], redact(", ".join(map(str, urls)))
            return
        for name, child in node.items():
            yield from _endpoints(child, (*path, str(name)))
    elif isinstance(node, list):
        for child in node:
            yield from _endpoints(child, path)


def _table_counts(run: RunFolder) -> Iterator[tuple[str, int, str]]:
    """Name, rows, models and prompt versions of the stages' tables, read from the tables themselves."""
    splits = Counter(row["split"] for row in run.rows(run.source, ["split"]))
    for split, rows in sorted(splits.items()):
        yield f"{split.replace('_', '-')} {NOUNS[run.source]}s", rows, MISSING
    for stage, name, column in _TABLES:
        sources: Counter[tuple[str, str]] = Counter(
            (row[column], row["prompt_version"]) for row in run.rows(stage, [column, "prompt_version"])
        )
        if sources:
            models = ", ".join(
                f"{model} ({rows})" if len(sources) > 1 else model for (model, _), rows in sorted(sources.items())
            )
            prompts = ", ".join(sorted({version for _, version in sources}))
            yield name, sources.total(), f"{models}; prompt {prompts}"


def next_steps(run: RunFolder) -> Block:
    """Commands to run next, ready to paste."""
    place = f"--resume {shlex.quote(run.path.name)} --runs {shlex.quote(str(run.path.parent))}"
    commands = [Command("Continue this run, or make its report again", f"rubricworks run {place}")]
    for stage in run.trainings:
        if run.source == "prepare" and (run.path / stage / "model").is_dir():
            model = shlex.quote(str(run.path / stage / "model"))
            text = f"rubricworks caption IMAGES --model {model} --out captions"
            commands.append(Command("Caption your images with the trained model", text))
    if (run.path / "audit" / JUDGE_AUDIT).is_file():
        responses = shlex.quote(str(run.path / "audit"))
        text = f"rubricworks audit {shlex.quote(str(run.path))} --from {responses} --judge MODEL@URL --out audits/MODEL"
        commands.append(Command("Audit another judge on this run's responses", text))
    uri = redact(tracking_uri(TrackingConfig(**(run.recipe.get("tracking") or {})), run.path.parent))
    is_server = uri.startswith(("http://", "https://"))
    command = f"open {uri}" if is_server else f"mlflow ui --backend-store-uri {shlex.quote(uri)}"
    return Block("next", "Next", [*commands, Command("Compare runs in MLflow", command)])


RECORD = (warnings, costs, failures, what_ran, next_steps)
"""Sections that end every report."""
