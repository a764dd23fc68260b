"""Which figures of a board may be results of a benchmark of the Hub."""

import pytest
import yaml

from rubricworks.errors import UserError
from rubricworks.evaluation.hub_results import HubBenchmark, parse_hub_benchmark, result_files
from rubricworks.evaluation.scoreboard import ModelScores
from rubricworks.metrics import Interval

COMMIT = "0123456789" * 4


def scores(**tasks: dict[str, float]) -> ModelScores:
    means = {
        figure: {task: Interval(value=value, samples=9) for task, value in values.items()}
        for figure, values in tasks.items()
    }
    return ModelScores(model="policy", decoding="greedy", means={}, tasks=means)


def test_a_mapping_names_task_data_set_and_commit():
    assert parse_hub_benchmark("ai2d=a/b.c:d-e") == HubBenchmark("ai2d", "a/b.c", "d-e")
    assert parse_hub_benchmark(f"ai2d=a/b:d@{COMMIT}") == HubBenchmark("ai2d", "a/b", "d", COMMIT)
    for text in ("ai2d", "ai2d=a/b", "ai2d=b:d", "ai2d=a/b:d@main", "=a/b:d"):
        with pytest.raises(UserError, match="write TASK=ORG/DATASET:TASK_ID"):
            parse_hub_benchmark(text)


def test_tasks_of_held_out_questions_are_no_benchmark_and_the_first_set_counts():
    board = scores(answers_right={"counting": 0.5}, benchmark_one={"ai2d": 0.25}, benchmark_two={"ai2d": 0.75})
    benchmark = HubBenchmark("ai2d", "a/b", "d")
    (text,) = result_files([benchmark], board, {"benchmark_one": "v1"}, date="2026-01-01", scale="percent").values()
    assert yaml.safe_load(text) == [
        {
            "dataset": {"id": "a/b", "task_id": "d"},
            "value": 25.0,
            "date": "2026-01-01",
            "notes": "ai2d by v1, greedy decoding",
        }
    ]
    with pytest.raises(UserError, match="counting: no benchmark of that name was measured; those that were: ai2d"):
        result_files([benchmark._replace(task="counting")], board, {}, date="", scale="share")
