"""Rubrics as OpenEnv's `Rubric`: `super().__init__(rubric=RubricOfCriteria(rubric, Grader(judge)))` in an environment.

The criteria are its children, so that `named_rubrics()` lists them with their last scores. OpenEnv's hooks run as for
any rubric. A response that could not be judged scores NaN, in its criteria too, never 0: trainers leave NaN out of the
baseline (TRL), and JSON carries it as null. Written against openenv-core 0.3.

OpenEnv has no file of rubrics: a rubric is a class, and `state_dict` of its containers leaves out children and weights.
That of `RubricOfCriteria` is the whole rubric, as JSON that `rubricworks rubrics import` reads.
"""

import math
from collections.abc import Callable
from typing import Any

from openenv.core.rubrics import Rubric as OpenEnvRubric

from rubricworks.adapters.trl import RubricReward
from rubricworks.data.rubric_sets.entries import parse_rubric
from rubricworks.grading import Grader
from rubricworks.rubrics import Rubric


class CriterionScore(OpenEnvRubric):  # type: ignore[misc, unused-ignore]
    """Last credit of one criterion; its parent has it judged with the others, in one call."""

    def __init__(self, title: str, weight: float) -> None:
        super().__init__()
        self.title, self.weight = title, weight

    def forward(self, action: Any, observation: Any) -> float:
        """Return the credit that the parent's last call gave."""
        return math.nan if self.last_score is None else float(self.last_score)


class RubricOfCriteria(OpenEnvRubric):  # type: ignore[misc, unused-ignore]
    """OpenEnv rubric that has an action's text graded by a judge, criterion by criterion."""

    def __init__(
        self,
        rubric: Rubric,
        grader: Grader,
        *,
        response: Callable[[Any], str] | None = None,
        prompt: Callable[[Any], str] | None = None,
    ) -> None:
        """
        Args:
            rubric: criteria of the task.
            response: returns the text to grade from an action; default: its `message`, `text` or `content`, else all.
            prompt: returns the prompt from an observation; default: the same fields of it.
        """
        super().__init__()
        self._reward = RubricReward(grader)
        self._response, self._prompt = response or _text, prompt or _text
        self._take(rubric)

    def _take(self, rubric: Rubric) -> None:
        self.criteria = rubric
        self._rubric_children.clear()
        for number, criterion in enumerate(rubric.criteria):
            setattr(self, f"criterion_{number}", CriterionScore(criterion.criterion, criterion.weight))

    def state_dict(self) -> dict[str, object]:
        """Return the criteria, as JSON has them."""
        return self.criteria.model_dump(mode="json")

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Grade by the criteria of `state_dict` from now on.

        Raises:
            UserError: the state is no rubric.
        """
        self._take(parse_rubric(state, "state_dict"))

    async def forward(self, action: Any, observation: Any) -> float:
        """Grade the action's text; NaN if a criterion could not be judged."""
        prompt, response = self._prompt(observation), self._response(action)
        scores = await self._reward.score([prompt], [response], rubric=[self.criteria])
        for child, verdict in zip(self.children(), scores.scorecards[0].verdicts, strict=True):
            child.last_score = math.nan if verdict.credit is None else verdict.credit
        reward = scores.rewards[0]
        return math.nan if reward is None else reward


def _text(value: Any) -> str:
    for name in ("message", "text", "content"):
        if isinstance(text := getattr(value, name, None), str):
            return text
    return str(value)
