"""lmms-eval 0.7.3 against an OpenAI-compatible endpoint, and its results, verified.

The program exits 0 when it fails, so nothing counts but the files that it wrote. Every task has a folder of its own;
one with verified results is not run again. `*_results.json` has the figure of a task or group, `*_samples_TASK.jsonl` a
line per sample; samples have scores where they agree with the figure. A request that failed leaves a line without
output tokens, whose score is the harness's for an empty answer: such a sample has no score here.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rubricworks.errors import UserError
from rubricworks.evaluation.suites.harness import Harness, TaskResult, last_lines

LMMS_EVAL = Harness("lmms-eval", "0.7.3", "RUBRICWORKS_LMMS_EVAL", ("filelock<4",))  # it imports filelock._api


async def run_tasks(
    tasks: Mapping[str, str],
    *,
    url: str,
    model: str,
    api_key: str,
    folder: Path,
    include: Path | None = None,
    limit: int | None = None,
    concurrency: int = 16,
) -> dict[str, TaskResult]:
    """Run tasks and return their verified results.

    Args:
        tasks: task → the metric to read.
        url: base URL of the endpoint.
        folder: of the program's files; tasks whose results are there are not run again.
        include: folder of further task definitions.
        limit: first samples of each task.
    Raises:
        UserError: the program wrote no results for a task, or results that do not hold together.
    """
    results: dict[str, TaskResult] = {}
    for task, metric in tasks.items():
        place = folder / task
        if (result := read_task(place, task, metric)) is None:
            place.mkdir(parents=True, exist_ok=True)
            settings = f"model_version={model},base_url={url},num_concurrent={concurrency},timeout=120"
            arguments = ["-m", "lmms_eval", "--model", "openai", "--model_args", settings]
            arguments += ["--tasks", task, "--batch_size", "1", "--log_samples", "--output_path", str(place)]
            arguments += ["--include_path", str(include)] if include else []
            arguments += ["--limit", str(limit)] if limit else []
            code = await LMMS_EVAL.run(arguments, {"OPENAI_API_KEY": api_key}, place / "log.txt")
            if (result := read_task(place, task, metric)) is None:
                log = (place / "log.txt").read_text(errors="replace")
                raise UserError(
                    f"lmms-eval wrote no results of {task} (exit {code}): {last_lines(log)}; {place / 'log.txt'}"
                )
        results[task] = result
    return results


_SCORES = ("score", "correct", "acc", "accuracy", "is_correct", "exact_match")
_TOLERANCE = 0.005
"""Largest difference between the mean of the samples and the reported figure, which may weigh them otherwise."""


def read_task(folder: Path, task: str, metric: str) -> TaskResult | None:
    """Read the newest results of a task; None if there are none.

    Raises:
        UserError: a file is damaged, the metric is not among the results, or lines of samples are missing.
    """
    files = sorted(folder.glob("**/*_results.json"))
    if not files:
        return None
    path = files[-1]
    try:
        results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        parts = _leaves(results, task)
        lines = {part: _lines(path, part) for part in parts}
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise UserError(f"{path}: not lmms-eval's results of {task} ({type(error).__name__}: {error})") from error
    if not parts:
        return None
    for part, rows in lines.items():
        expected = results.get("n-samples", {}).get(part, {}).get("effective", len(rows))
        if len(rows) != expected or not rows:
            raise UserError(f"{path}: {len(rows)} lines of samples of {part}, {expected} were to be answered")
    samples: dict[str, float | None] = {}
    readable = True
    for part, rows in lines.items():
        for row in rows:
            name = f"{part}:{row['doc_id']}" if part != task else str(row["doc_id"])
            if not _answered(row):
                samples[name] = None
                continue
            score = _score(row.get(metric))
            readable = readable and score is not None
            samples[name] = score
    value = _reported(results, task, parts, metric, {part: len(rows) for part, rows in lines.items()}, path)
    unanswered = sum(not _answered(row) for rows in lines.values() for row in rows)
    if unanswered == len(samples):
        raise UserError(f"{path}: the endpoint answered none of {unanswered} requests of {task}")
    judged = [score for score in samples.values() if score is not None]
    if unanswered and readable:
        value = sum(judged) / len(judged)
    elif unanswered:
        raise UserError(f"{path}: the endpoint did not answer {unanswered} of {len(samples)} requests of {task}")
    agrees = readable and abs(sum(judged) / len(judged) - value) <= _TOLERANCE
    return TaskResult(value, samples if agrees else {}, str(results.get("versions", {}).get(parts[0], "")))


def _leaves(results: dict[str, Any], task: str) -> list[str]:
    """Tasks of a group, or the task itself; none if the results are not of it."""
    subtasks = results.get("group_subtasks", {}).get(task) or []
    leaves = [leaf for subtask in subtasks for leaf in _leaves(results, subtask)]
    return leaves or ([task] if task in results.get("configs", {}) else [])


def _lines(path: Path, task: str) -> list[dict[str, object]]:
    stamp = path.name.removesuffix("_results.json")
    file = path.with_name(f"{stamp}_samples_{task}.jsonl")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


def _reported(
    results: dict[str, Any], task: str, parts: list[str], metric: str, counts: dict[str, int], path: Path
) -> float:
    """The task's figure; of a group without one, the mean of its tasks weighted by their samples."""
    figure = _figure(results["results"].get(task, {}), metric)
    if figure is None:
        figures = {part: _figure(results["results"].get(part, {}), metric) for part in parts}
        known = {part: value for part, value in figures.items() if value is not None}
        if len(known) < len(parts) or not known:
            metrics = sorted({key.partition(",")[0] for key in results["results"].get(parts[0], {}) if "," in key})
            raise UserError(f"{path}: {task} has no metric {metric!r}; it has {', '.join(metrics) or 'none'}")
        figure = sum(value * counts[part] for part, value in known.items()) / sum(counts.values())
    return figure / 100 if figure > 1 else figure


def _figure(metrics: dict[str, object], metric: str) -> float | None:
    for key, value in metrics.items():
        if key.partition(",")[0] == metric and isinstance(value, int | float) and math.isfinite(value):
            return float(value)
    return None


def _score(value: Any) -> float | None:
    """Score of one sample in [0, 1]; None if the line does not hold one."""
    if isinstance(value, dict):
        value = next((value[name] for name in _SCORES if name in value), None)
    if isinstance(value, bool | int | float) and 0 <= float(value) <= 1:
        return float(value)
    return None


def _answered(row: dict[str, Any]) -> bool:
    counts = row.get("token_counts") or []
    return any((count or {}).get("output_tokens") for count in counts) if counts else bool(row.get("filtered_resps"))
