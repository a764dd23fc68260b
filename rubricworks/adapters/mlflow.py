"""Rubrics as a scorer of MLflow: `mlflow.genai.evaluate(data, scorers=[RubricScorer(Grader(judge))])`.

A row's rubric is its expectation `rubric` (JSON, a dict or a `Rubric`), or one rubric for all rows. Each row gets the
feedback `rubric`, its reward, and one feedback per criterion, `rubric/TITLE`, with the judge's rationale. A title that
MLflow takes for no metric's name is cut, and is whole in the feedback's metadata. A criterion that could not be judged
has an error and no value, and so has the reward: MLflow's means leave it out.
"""

import json
from collections.abc import Mapping
from typing import Any

from mlflow.entities import Feedback, Trace
from mlflow.genai.scorers import Scorer
from pydantic import PrivateAttr

from rubricworks.adapters.loop_thread import run_in_loop
from rubricworks.adapters.mlflow_traces import criterion_feedbacks, reward_feedback
from rubricworks.adapters.trl import RubricReward
from rubricworks.errors import UserError
from rubricworks.grading import Grader
from rubricworks.rubrics import Rubric

_PROMPTS = ("prompt", "question", "messages")
"""Inputs that are the prompt; others are shown as JSON."""


class RubricScorer(Scorer):
    """MLflow scorer that grades outputs by rubrics."""

    _reward: RubricReward = PrivateAttr()
    _rubric: Rubric | None = PrivateAttr()

    def __init__(self, grader: Grader, *, rubric: Rubric | None = None, name: str = "rubric", **options: Any) -> None:
        """
        Args:
            rubric: rubric of every row; None = each row's expectation `rubric`.
            name: name of the reward's feedback, and the beginning of the others'.
            options: other fields of MLflow's scorer.
        """
        super().__init__(name=name, **options)
        self._reward, self._rubric = RubricReward(grader), rubric

    def __call__(  # MLflow passes what a scorer names
        self,
        *,
        inputs: Any = None,
        outputs: Any = None,
        expectations: dict[str, object] | None = None,
        trace: Trace | None = None,
        session: list[Trace] | None = None,
    ) -> list[Feedback]:
        """Grade one row.

        Raises:
            UserError: it has no rubric.
        """
        rubric = self._reward.parse_rubric(self._rubric or _expected(expectations), 0)
        answer = (expectations or {}).get("expected_response")
        scores = run_in_loop(self._reward.score([_prompt(inputs)], [_text(outputs)], rubric=[rubric], answer=[answer]))
        card = scores.scorecards[0]
        total = reward_feedback(card, scores.rewards[0], self.name)
        return [total, *criterion_feedbacks(card, rubric, self.name)]


def _expected(expectations: Any) -> Any:
    rubric = expectations.get("rubric") if isinstance(expectations, Mapping) else None
    if rubric is None:
        raise UserError("the row has no rubric: give it as the expectation 'rubric', or one rubric to RubricScorer")
    return rubric


def _prompt(inputs: Any) -> Any:
    if isinstance(inputs, Mapping):
        return next((inputs[name] for name in _PROMPTS if inputs.get(name)), json.dumps(dict(inputs), default=str))
    return _text(inputs)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
