"""Benchmark results as the Hugging Face Hub takes them: files `.eval_results/TASK.yaml` of a model's repository.

The Hub shows them on the model's page and on the leaderboard of the benchmark, a data set of the Hub with an
`eval.yaml` that names its tasks. A result there is the data set, a task and a number. No file maps a harness's task to
a data set of the Hub, so a person does. An interval, a judge and a number of samples have no place; the notes say what
measured it. Source: https://huggingface.co/docs/hub/eval-results.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

import yaml

from rubricworks.errors import UserError
from rubricworks.evaluation.scoreboard import ModelScores
from rubricworks.evaluation.scorers.benchmark import sample_limit

Scale = Literal["percent", "share"]
_FIGURE = "benchmark_"
_MAPPING = re.compile(
    r"(?P<task>[^=]+)=(?P<dataset>[\w.-]+/[\w.-]+):(?P<task_id>[\w./-]+)(?:@(?P<revision>[0-9a-f]{40}))?"
)


class HubBenchmark(NamedTuple):
    """A benchmark that was measured here, and what it is on the Hub."""

    task: str
    """Task of the harness, such as `chartqa`."""
    dataset: str
    task_id: str
    """Task in the data set's `eval.yaml`."""
    revision: str | None = None


def parse_hub_benchmark(text: str) -> HubBenchmark:
    """Parse `TASK=ORG/DATASET:TASK_ID`, which may end in `@COMMIT`.

    Raises:
        UserError: the text has another form.
    """
    match = _MAPPING.fullmatch(text)
    if match is None:
        raise UserError(f"{text!r}: write TASK=ORG/DATASET:TASK_ID, and @COMMIT with its 40 digits to pin it")
    return HubBenchmark(match["task"], match["dataset"], match["task_id"], match["revision"])


def result_files(
    benchmarks: Iterable[HubBenchmark], scores: ModelScores, versions: Mapping[str, str], *, date: str, scale: Scale
) -> dict[str, str]:
    """Write each result as a file: path → YAML.

    Args:
        scores: the model's line on the board.
        versions: figure → version of its scorer.
        date: end of the evaluation, ISO 8601.
        scale: `percent` multiplies the mean by 100, `share` leaves it between 0 and 1; the leaderboard has one of them.
    Raises:
        UserError: a benchmark was not measured, or not whole.
    """
    try:
        from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml
    except ImportError:
        raise UserError("results for the Hub need a newer huggingface_hub; pip install -U huggingface_hub") from None
    measured = {
        task: (figure, mean)
        for figure, tasks in reversed(scores.tasks.items())
        if figure.startswith(_FIGURE)
        for task, mean in tasks.items()
    }
    incomplete = {task: reason for tasks in scores.incomplete.values() for task, reason in tasks.items()}
    files = {}
    for benchmark in benchmarks:
        if benchmark.task not in measured:
            if reason := incomplete.get(benchmark.task):
                raise UserError(f"{benchmark.task}: {reason}, which is no result; run the evaluation again")
            known = ", ".join(sorted(measured)) or "none"
            raise UserError(f"{benchmark.task}: no benchmark of that name was measured; those that were: {known}")
        figure, mean = measured[benchmark.task]
        version = versions.get(figure, "")
        if (limit := sample_limit(version)) is not None:
            raise UserError(
                f"{benchmark.task}: its first {limit} samples were measured, which is no result of the benchmark"
            )
        step = "" if scores.step is None else f", step {scores.step} of the training"
        entry = EvalResultEntry(
            dataset_id=benchmark.dataset,
            task_id=benchmark.task_id,
            value=round(100 * mean.value if scale == "percent" else mean.value, 6),
            dataset_revision=benchmark.revision,
            date=date,
            notes=f"{benchmark.task} by {version or 'an unknown version'}, {scores.decoding} decoding{step}",
        )
        name = re.sub(r"[^\w.-]", "_", benchmark.task)
        files[f".eval_results/{name}.yaml"] = yaml.safe_dump(eval_result_entries_to_yaml([entry]), sort_keys=False)
    return files
