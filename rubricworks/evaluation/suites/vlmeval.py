"""ms-vlmeval 0.0.20, VLMEvalKit as a package, for the benchmarks that lmms-eval lacks: OCRVQA and A-OKVQA.

It asks an OpenAI-compatible endpoint and reads letters by exact matching, without a judge. It exits 0 when it fails,
and counts a request that failed as a wrong answer, so its table of scored predictions is read and verified here. Every
task has a folder of its own; one with verified results is not run again.
"""

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rubricworks.errors import UserError
from rubricworks.evaluation.suites.harness import Harness, TaskResult, last_lines
from rubricworks.storage import write_atomic

VLMEVAL = Harness("ms-vlmeval", "0.0.20", "RUBRICWORKS_VLMEVAL")
_KINDS = {
    "eval_score": ("ImageVQADataset", "_results"),
    "hit": ("ImageMCQDataset", "_exact_matching_result"),
}
"""Column of a sample's score → class of the dataset, and the ending of the table that has the column."""
_MODEL = "model"
"""Name of the model in paths; a model's own may have slashes."""
_NO_ANSWER = "Failed to obtain answer via API"
_TOLERANCE = 0.005


async def run_tasks(
    tasks: Mapping[str, str],
    *,
    url: str,
    model: str,
    api_key: str,
    folder: Path,
    limit: int | None = None,
    concurrency: int = 16,
    max_tokens: int = 1024,
) -> dict[str, TaskResult]:
    """Run tasks and return their verified results.

    A task's data is `TASK.tsv` in the folder LMUData of the environment, and is downloaded there if it is missing.

    Args:
        tasks: task → column of a sample's score: `eval_score` of short answers, `hit` of multiple choice.
        url: base URL of the endpoint.
        folder: of the program's files; tasks whose results are there are not run again.
        limit: first samples of each task.
    Raises:
        UserError: the program wrote no results for a task, or results that do not hold together.
    """
    endpoint = {"class": "LMDeployAPI", "model": model, "api_base": f"{url}/chat/completions", "verbose": False}
    endpoint |= {"temperature": 0.0, "max_tokens": max_tokens, "retry": 3, "timeout": 120}
    results: dict[str, TaskResult] = {}
    for task, column in tasks.items():
        place = folder / task
        if (result := read_task(place, task, column)) is None:
            place.mkdir(parents=True, exist_ok=True)
            data = {task: {"class": _KINDS[column][0], "dataset": task}}
            settings = {"model": {_MODEL: endpoint}, "data": data}
            write_atomic(place / "config.json", json.dumps(settings).encode())
            arguments = ["-m", "vlmeval", "--config", str(place / "config.json"), "--work-dir", str(place)]
            arguments += ["--judge", "exact_matching", "--api-nproc", str(concurrency)]
            arguments += ["--limit", str(limit)] if limit else []
            variables = {"LMDEPLOY_API_KEY": api_key, "PRED_FORMAT": "tsv", "EVAL_FORMAT": "json"}
            code = await VLMEVAL.run(arguments, variables, place / "log.txt")
            if (result := read_task(place, task, column)) is None:
                log = (place / "log.txt").read_text(errors="replace")
                reason = _status(place, task).get("error_message") or last_lines(log)
                raise UserError(f"ms-vlmeval wrote no results of {task} (exit {code}): {reason}; {place / 'log.txt'}")
        results[task] = result
    return results


def read_task(folder: Path, task: str, column: str) -> TaskResult | None:
    """Read the results of a task; None if there are none.

    Raises:
        UserError: a file is damaged, lines of samples are missing, or their mean is not the reported figure.
    """
    status = _status(folder, task)
    if status.get("status") != "done" or not status.get("metrics"):
        return None
    path = folder / _MODEL / f"{_MODEL}_{task}{_KINDS[column][1]}.tsv"
    try:
        asked = _rows(folder / _MODEL / f"{_MODEL}_{task}.tsv")
        rows = {row["index"]: (float(row[column]), row["prediction"]) for row in _rows(path)}
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        raise UserError(f"{path}: not ms-vlmeval's results of {task} ({type(error).__name__}: {error})") from error
    if {row["index"] for row in asked} != rows.keys() or not rows:
        raise UserError(f"{path}: {len(rows)} scored samples of {task}, {len(asked)} were to be answered")
    figures = [value for name, value in status["metrics"].items() if name.rpartition("|")[2] == "Overall"]
    mean = sum(score for score, _ in rows.values()) / len(rows)
    if len(figures) == 1 and abs((figures[0] / 100 if figures[0] > 1 else figures[0]) - mean) > _TOLERANCE:
        raise UserError(f"{path}: the scores of {task} have the mean {mean:.4f}, and {figures[0]} is reported")
    samples = {name: None if _NO_ANSWER in answer else score for name, (score, answer) in rows.items()}
    judged = [score for score in samples.values() if score is not None]
    if not judged:
        raise UserError(f"{path}: the endpoint answered none of {len(samples)} requests of {task}")
    return TaskResult(sum(judged) / len(judged), samples, VLMEVAL.version)


def _status(folder: Path, task: str) -> dict[str, Any]:
    """The program's own word on a task: its state, metrics and error."""
    try:
        status = json.loads((folder / _MODEL / "status.json").read_bytes())
        return dict(status["datasets"][task])
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", strict=True))
