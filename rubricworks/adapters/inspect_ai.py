"""Rubrics as a scorer of Inspect: `Task(dataset, scorer=rubric_scorer(Grader(judge)))`.

A sample's rubric is `metadata["rubric"]` (JSON, a dict or a `Rubric`); with `Grader(judge, subject="answer")` the
judge is shown the input, and the target as the reference answer. The score is the reward in [0, 1], its explanation the
judge's reasons, and its metadata the credit of each criterion. A response that could not be judged is
unscored: Inspect keeps it in the log and leaves it out of the metrics. Written against inspect_ai 0.3.
"""

from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from rubricworks.adapters.trl import RubricReward
from rubricworks.errors import UserError
from rubricworks.grading import Grader


@scorer(metrics=[mean(), stderr()], name="rubric")  # type: ignore[untyped-decorator, unused-ignore]
def rubric_scorer(grader: Grader, rubric_key: str = "rubric") -> Scorer:
    """Build the scorer.

    Args:
        grader: grades each sample's output.
        rubric_key: key of the rubric in the sample's metadata.
    """
    reward = RubricReward(grader)

    async def score(state: TaskState, target: Target) -> Score:
        if (state.metadata or {}).get(rubric_key) is None:
            raise UserError(f"sample {state.sample_id}: no rubric in metadata[{rubric_key!r}]")
        columns = {"rubric": [state.metadata[rubric_key]], "sample_id": [str(state.sample_id)]}
        columns["answer"] = [target.text or None]
        answer = state.output.completion
        scores = await reward.score([state.input_text], [answer], **columns)
        (value,), (card,) = scores.rewards, scores.scorecards
        reasons = "\n".join(f"{one.criterion}: {one.reasoning}" for one in card.verdicts)
        metadata = {"judge": card.judge, "credits": {one.criterion: one.credit for one in card.verdicts}}
        if value is None:
            reason = next(one.error.value for one in card.verdicts if one.error is not None)
            return Score.unscored(reason=reason, answer=answer, explanation=reasons, metadata=metadata)
        return Score(value=value, answer=answer, explanation=reasons, metadata=metadata)

    return score
