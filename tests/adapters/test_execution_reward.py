"""The GenRM's reward as TRL calls it."""

import asyncio
import json

import pytest

from rubricworks.adapters.genrm import ExecutionReward
from rubricworks.rubrics import Criterion, Rubric, Scorecard

RUBRIC = Rubric(
    criteria=(
        Criterion(criterion="A", reference="expr_verify(target='4')", weight=3),
        Criterion(criterion="B", reference="red", weight=1, essential=False),
    )
).model_dump_json()


def answer(call: object, credit: object) -> str:
    essential, additional = ([{"criterion": c, "rationale": "", "credit": v}] for c, v in (("A", call), ("B", credit)))
    return json.dumps({"thought": "", "essential": essential, "additional": additional})


LABEL = answer("expr_verify(predict='3')", 1)
OUTPUTS = {
    answer("expr_verify(predict='3.0')", 1): 1.0,
    answer("expr_verify(predict='4')", 1): 0.75,
    answer(1, 0.5): 0.5,
    "I cannot": 0.0,
}


def rewarded(outputs: list[str], **columns: object) -> tuple[list[float], list[Scorecard]]:
    cards: list[Scorecard] = []
    reward = ExecutionReward(sink=cards.extend)
    completions = [[{"role": "assistant", "content": text}] for text in outputs]
    many = len(outputs)
    values = asyncio.run(
        reward(
            [""] * many, completions, sample_id=["s"] * many, rubric=[RUBRIC] * many, label=[LABEL] * many, **columns
        )
    )
    return values, cards


def test_rewards_are_form_and_content_and_broken_output_earns_0_not_none():
    values, cards = rewarded(list(OUTPUTS))
    assert values == pytest.approx(list(OUTPUTS.values()))
    assert [card.response for card in cards] == list(OUTPUTS)
    assert [card.credits for card in cards] == [[1, 1], [0, 1], [0, 0], [0, 0]]


def test_both_halves_are_logged():
    logged = {}
    rewarded(list(OUTPUTS), log_metric=logged.__setitem__)
    assert logged == pytest.approx({"genrm/format": 3 / 4, "genrm/content": (1 + 0.5) / 4})
