"""RubiCap's policy training with the options that look at a group: the tables show what they did."""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import pvariance
from typing import Any

import pytest
from rubric_squares import make_inputs
from scripted_server import say

from rubricworks.data.tables import read_rows
from rubricworks.runtime.launch import launch

pytest.importorskip("trl")
pytestmark = pytest.mark.e2e

RL = {"epochs": None, "steps": 2, "prompts_per_step": 2, "group_size": 4, "max_new_tokens": 8, "learning_rate": 1e-4}
WEIGHTS = (3, 1)
"""Of the two criteria of each rubric: its colour, and that there is a square."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> dict[str, str]:
    return make_inputs(tmp_path_factory.mktemp("inputs"))


def grade(_: int, body: dict[str, Any]):
    """The first criterion is met by captions with an even number of letters, the second by those with an "e"."""
    text = body["messages"][1]["content"]
    caption = text.split("<caption>\n")[1].split("\n</caption>")[0]
    scores = [int(len(caption) % 2 == 0), int("e" in caption)]
    verdicts = [{"id": at, "reasoning": "r", "score": score} for at, score in enumerate(scores, start=1)]
    return say(json.dumps({"verdicts": verdicts}))


def train(run: Path, inputs: dict[str, str], judge: str, **config: Any) -> Path:
    endpoint = {"url": judge, "model": "judge", "attempts": 1}
    return Path(launch("train_policy", json.dumps({"judge": endpoint, **RL, **config}), str(run), inputs))


def fours(rows: Sequence[Any]) -> list[Sequence[Any]]:
    return [rows[at : at + 4] for at in range(0, len(rows), 4)]


def groups_of(out: Path) -> list[tuple[list[float], list[list[float]]]]:
    """Rewards and credits of each group."""
    rewards = [row["reward"] for row in read_rows(out / "rollouts")]
    credits = [
        [verdict["credit"] for verdict in json.loads(row["scorecard"])["verdicts"]]
        for row in read_rows(out / "scorecards")
    ]
    return list(zip(fours(rewards), fours(credits), strict=True))


def test_weights_by_contrast_are_those_of_the_verdicts_in_the_table(inputs, serve, tmp_path):
    out = train(tmp_path, inputs, serve(grade).url, contrast={"strength": 0.8, "ceiling": 100})
    moved = 0
    for rewards, credits in groups_of(out):
        variances = [pvariance(column) for column in zip(*credits, strict=True)]
        mean = sum(w * v for w, v in zip(WEIGHTS, variances, strict=True)) / 4
        factors = [0.2 + 0.8 * v / mean for v in variances] if mean else [1, 1]
        weights = [w * factor for w, factor in zip(WEIGHTS, factors, strict=True)]
        expected = [sum(w * y for w, y in zip(weights, row, strict=True)) / 4 for row in credits]
        assert rewards == pytest.approx(expected)
        moved += weights != pytest.approx(WEIGHTS)
    assert moved


def test_refill_draws_other_captions_where_all_pass_or_fail_a_criterion(inputs, serve, tmp_path):
    out = train(tmp_path, inputs, serve(grade).url, refill={"rounds": 3, "criterion": "square"})
    advantages = [row["advantage"] for row in read_rows(out / "rollouts")]
    trained = dropped = 0
    for (_, credits), group in zip(groups_of(out), fours(advantages), strict=True):
        with_signal = len({row[1] for row in credits}) == 2
        assert all(one is None for one in group) or with_signal
        trained += with_signal
        dropped += not with_signal
    assert trained
    assert dropped
