"""GenRM training reward for TRL: compares an output with its label, without a judge.

The dataset's columns are `rubric` and `label` (both JSON) and `sample_id`. Output that cannot be parsed earns 0,
because the policy wrote it; None is for a judge's failure.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from rubricworks.adapters.rows import completion_text
from rubricworks.grading import Scoring
from rubricworks.grading.genrm_answers import check_answer
from rubricworks.rewards.genrm import GenrmReward, genrm_reward
from rubricworks.rubrics import Rubric, Scorecard, Verdict


class ExecutionReward:
    """Reward of a rubric execution: half for its format, half for its content (RLR³, section 4.4)."""

    __name__ = "execution_reward"

    def __init__(self, *, sink: Callable[[list[Scorecard]], object] | None = None) -> None:
        """
        Args:
            sink: called with the scorecards of each batch; a credit says if the output is right on a criterion, not how
                good the graded response is.
        """
        self.sink = sink

    async def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        *,
        sample_id: Sequence[str],
        rubric: Sequence[str],
        label: Sequence[str],
        **columns: Any,
    ) -> list[float]:
        """One reward per completion."""
        outputs = list(map(completion_text, completions))
        rows = list(zip(sample_id, outputs, label, rubric, strict=True))
        scored = await asyncio.to_thread(lambda: [_score(*row) for row in rows])
        if self.sink is not None:
            self.sink([card for card, _ in scored])
        if log_metric := columns.get("log_metric"):
            for name in ("format", "content"):
                log_metric(f"genrm/{name}", sum(getattr(reward, name) for _, reward in scored) / max(len(scored), 1))
        return [reward.total for _, reward in scored]


def _score(sample_id: str, output: str, label: str, rubric: str) -> tuple[Scorecard, GenrmReward]:
    scoring, criteria = _parse(label, rubric)
    check = check_answer(output, scoring, criteria)
    verdicts = tuple(
        Verdict(criterion=criterion.criterion, credit=scored.score)
        for criterion, scored in zip(criteria.criteria, check.criteria, strict=True)
    )
    card = Scorecard(sample_id=sample_id, response=output, judge="label", verdicts=verdicts)
    return card, genrm_reward(check.valid, [scored.score for scored in check.criteria], check.surplus)


@lru_cache(maxsize=4096)
def _parse(label: str, rubric: str) -> tuple[Scoring, Rubric]:
    """Parse label and rubric; cached, as the rollouts of a group and later epochs repeat them."""
    return Scoring.model_validate_json(label), Rubric.model_validate_json(rubric)
