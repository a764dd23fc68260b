"""lmms-eval 0.7.3 against an OpenAI-compatible endpoint.

The program exits 0 when it fails, so nothing counts but the files that it wrote: `lmms_results` reads and verifies
them. Every task has a folder of its own; one with verified results is not run again.
"""

from collections.abc import Mapping
from pathlib import Path

from rubricworks.errors import UserError
from rubricworks.evaluation.suites.harness import Harness, TaskResult, last_lines
from rubricworks.evaluation.suites.lmms_results import read_task

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
