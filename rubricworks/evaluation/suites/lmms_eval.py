"""lmms-eval 0.7.3 against an OpenAI-compatible endpoint.

The program exits 0 when it fails, so only the files that it wrote count. They are verified here. `*_results.json` has
the figure of a task or group, `*_samples_TASK.jsonl` a line per sample; scores per sample count where they agree with
the figure. A failed request leaves a line without output tokens, which the harness scores as an empty answer. Here such
a sample has no score, and its task has no figure. A task's files count once the program ended under our eyes, with its
judge intact: then they are its `results`, and it is not run again.
"""

import json
import math
import os
import tempfile
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from rubricworks.errors import UserError
from rubricworks.evaluation.suites.harness import Harness, TaskResult, last_lines
from rubricworks.evaluation.suites.judge_gateway import JudgeForm, JudgeGateway
from rubricworks.llm import ChatClient, ChatError

_SCORES = ("score", "correct", "acc", "accuracy", "is_correct", "exact_match", "true_false")
_TOLERANCE = 0.005
"""Largest difference between the mean of the samples and the reported figure, which may weigh them otherwise."""
_RESULTS = "results"
"""Folder of a task's files once they count."""
_OUT_OF = {"ocrbench": 1000}
"""Task that always divides by its full number of questions, even under a limit → that number."""
_SUBMISSIONS = "submissions"
"""Folder of a task's own files, which MMBench names like the program's results."""


def read_task(folder: Path, task: str, metric: str, *, percent: bool = False) -> TaskResult | None:
    """Read the newest results of a task; None if there are none.

    Args:
        percent: the metric is out of 100, however small it is.

    Raises:
        UserError: a file is damaged, the metric is not among the results, or lines of samples are missing.
    """
    files = [path for path in sorted(folder.glob("**/*_results.json")) if path.parent.name != _SUBMISSIONS]
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
    version = str(results.get("versions", {}).get(parts[0], ""))
    tokens = sum(_output_tokens(row) for rows in lines.values() for row in rows)
    unanswered = sum(not _answered(row) for rows in lines.values() for row in rows)
    if unanswered == len(samples):
        raise UserError(f"{path}: the endpoint answered none of {unanswered} requests of {task}")
    if unanswered:
        reason = f"the endpoint did not answer {unanswered} of {len(samples)} requests"
        return TaskResult(None, samples if readable else {}, version, reason, tokens)
    reported = _reported(results, task, parts, metric, {part: len(rows) for part, rows in lines.items()}, path)
    if reported is not None and task in _OUT_OF:
        reported *= _OUT_OF[task] / len(samples)
    if readable:
        mean = sum(score for score in samples.values() if score is not None) / len(samples)
        # MathVista reports nothing in place of 0.
        if reported is None or any(abs(mean - figure) <= _TOLERANCE for figure in (reported, reported / 100)):
            return TaskResult(mean, samples, version, tokens=tokens)
    if reported is None:
        raise UserError(f"{path}: {task} reports no number as {metric}")
    return TaskResult(reported / 100 if percent or reported > 1 else reported, {}, version, tokens=tokens)


def _leaves(results: dict[str, Any], task: str) -> list[str]:
    """Tasks of a group, or the task itself; empty if the results are of another task."""
    subtasks = results.get("group_subtasks", {}).get(task) or []
    leaves = [leaf for subtask in subtasks for leaf in _leaves(results, subtask)]
    return leaves or ([task] if task in results.get("configs", {}) else [])


def _lines(path: Path, task: str) -> list[dict[str, Any]]:
    stamp = path.name.removesuffix("_results.json")
    file = path.with_name(f"{stamp}_samples_{task}.jsonl")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


def _reported(
    results: dict[str, Any], task: str, parts: list[str], metric: str, counts: dict[str, int], path: Path
) -> float | None:
    """The task's figure as the program wrote it; of a group without one, the mean of its tasks weighted by their
    samples. None if the metric holds no number.

    Raises:
        UserError: the metric is not among the results.
    """
    if (figure := _figure(results["results"].get(task, {}), metric)) is not None:
        return figure
    of_parts = {part: results["results"].get(part, {}) for part in parts}
    if any(all(key.partition(",")[0] != metric for key in metrics) for metrics in of_parts.values()):
        metrics = sorted({key.partition(",")[0] for key in of_parts[parts[0]] if "," in key})
        raise UserError(f"{path}: {task} has no metric {metric!r}; it has {', '.join(metrics) or 'none'}")
    figures = {part: value for part, metrics in of_parts.items() if (value := _figure(metrics, metric)) is not None}
    if len(figures) < len(parts):
        return None
    return sum(value * counts[part] for part, value in figures.items()) / sum(counts.values())


def _figure(metrics: dict[str, Any], metric: str) -> float | None:
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


def _output_tokens(row: dict[str, Any]) -> int:
    return sum((count or {}).get("output_tokens") or 0 for count in row.get("token_counts") or [])


LMMS_EVAL = Harness(
    "lmms-eval",
    "0.7.3",
    "RUBRICWORKS_LMMS_EVAL",
    ("filelock<4", "Levenshtein"),  # it imports filelock._api; MathVista's rules
    # Its latex2sympy2, which no task of ours needs, pins an ANTLR that leaves pip a math-verify without its parts.
    ("math-verify==0.8.0", "latex2sympy2_extended==1.10.2", "antlr4-python3-runtime==4.13.2"),
)


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
    max_new_tokens: int | None = None,
    timeout_s: float = 120.0,
    percent: Collection[str] = (),
    judge: ChatClient | None = None,
    forms: Mapping[str, JudgeForm] | None = None,
) -> dict[str, TaskResult]:
    """Run tasks and return their verified results.

    Args:
        tasks: task → the metric to read.
        url: base URL of the endpoint.
        api_key: of the endpoint; `none` leaves the user's OPENAI_API_KEY to the program.
        folder: of the program's files; tasks whose results are there are not run again.
        include: folder of further task definitions.
        limit: first samples of each task.
        max_new_tokens: longest answer, in tokens; by default the task's own limit.
        percent: tasks whose metric is out of 100.
        judge: judge of the tasks in `forms`.
        forms: task → what it asks of its judge.
    Raises:
        UserError: the program wrote no results for a task, or results that do not hold together.
    """
    settings = f"model_version={model},base_url={url},num_concurrent={concurrency},timeout={math.ceil(timeout_s)}"
    variables = {"OPENAI_API_KEY": api_key} if api_key != "none" else {}
    settings += "" if variables else ",api_key=none"
    results: dict[str, TaskResult] = {}
    for task, metric in tasks.items():
        place = folder / task
        if result := read_task(place / _RESULTS, task, metric, percent=task in percent):
            results[task] = result
            continue
        place.mkdir(parents=True, exist_ok=True)
        attempt = Path(tempfile.mkdtemp(dir=place, prefix="attempt-"))
        arguments = ["-m", "lmms_eval", "--model", "openai", "--model_args", settings]
        arguments += ["--tasks", task, "--batch_size", "1", "--log_samples", "--output_path", str(attempt)]
        arguments += ["--include_path", str(include)] if include else []
        arguments += ["--limit", str(limit)] if limit else []
        arguments += ["--gen_kwargs", f"max_new_tokens={max_new_tokens}"] if max_new_tokens else []
        log, begun = place / "log.txt", time.monotonic()
        try:
            code = await _run_task(arguments, variables, log, judge, (forms or {}).get(task))
        except ChatError as error:
            results[task] = TaskResult(None, {}, "", f"its judge failed ({error.error_class.value}): {error.message}")
            continue
        result = read_task(attempt, task, metric, percent=task in percent)
        if result is None:
            said = last_lines(log.read_text(errors="replace"))
            raise UserError(f"lmms-eval wrote no results of {task} (exit {code}): {said}; {log}")
        if result.value is not None:
            os.replace(attempt, place / _RESULTS)
        results[task] = result._replace(seconds=time.monotonic() - begun)
    return results


async def _run_task(
    arguments: list[str], variables: Mapping[str, str], log: Path, judge: ChatClient | None, form: JudgeForm | None
) -> int:
    if judge is None or form is None:
        return await LMMS_EVAL.run(arguments, variables, log)
    async with JudgeGateway(judge, form).opened() as gateway:
        keys = {
            "OPENAI_API_KEY": os.environ.get("OPENAI_API_KEY") or "none"
        }  # the tasks want one; the gateway has its own
        direct = ",".join(filter(None, (os.environ.get("NO_PROXY") or os.environ.get("no_proxy"), "127.0.0.1")))
        given = {**keys, **variables, **gateway.variables(), "NO_PROXY": direct, "no_proxy": direct}
        return await gateway.watch(LMMS_EVAL.run(arguments, given, log))
