"""Rubrics as a scorer of Inspect: `Task(dataset, scorer=rubric_scorer(Grader(judge)))`.

A sample's rubric is `metadata["rubric"]` (JSON, a dict or a `Rubric`); with `Grader(judge, subject="answer")` the
judge is shown the input, and the target as the reference answer. An input of several messages is shown whole. Of a
conversation the model's last output is graded, or with `view="full_trace"` all that follows the input. The score is the
reward in [0, 1], its explanation the judge's reasons, and its metadata the credit of each criterion. A response that
could not be judged is unscored, with Inspect's own reason `grader_failed` and the judge's error in the metadata:
Inspect keeps it in the log and leaves it out of the metrics. Written against inspect_ai 0.3.
"""

from collections.abc import Sequence

from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageTool
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from rubricworks.adapters.rows import View
from rubricworks.adapters.trl import RubricReward
from rubricworks.errors import UserError
from rubricworks.grading import Grader

_REASON = "grader_failed"
"""One of Inspect's reasons (`ScoreReason`), so that one query finds the failures of all graders."""


@scorer(metrics=[mean(), stderr()], name="rubric")  # type: ignore[untyped-decorator, unused-ignore]
def rubric_scorer(grader: Grader, rubric_key: str = "rubric", view: View = "last_reply") -> Scorer:
    """Build the scorer.

    Args:
        grader: grades each sample's output.
        rubric_key: key of the rubric in the sample's metadata.
        view: part of a conversation that is graded.
    """
    reward = RubricReward(grader, view=view)

    async def score(state: TaskState, target: Target) -> Score:
        if (state.metadata or {}).get(rubric_key) is None:
            raise UserError(f"sample {state.sample_id}: no rubric in metadata[{rubric_key!r}]")
        columns = {"rubric": [state.metadata[rubric_key]], "sample_id": [str(state.sample_id)]}
        columns["answer"] = [target.text or None]
        answer = state.output.completion
        asked = state.input if isinstance(state.input, str) else _turns(state.input)
        graded = answer if view == "last_reply" else _turns(_reply(state))
        scores = await reward.score([asked], [graded], **columns)
        (value,), (card,) = scores.rewards, scores.scorecards
        reasons = "\n".join(f"{verdict.criterion}: {verdict.reasoning}" for verdict in card.verdicts)
        metadata: dict[str, object] = {
            "judge": card.judge,
            "credits": {verdict.criterion: verdict.credit for verdict in card.verdicts},
        }
        if value is None:
            metadata["error"] = next(verdict.error.value for verdict in card.verdicts if verdict.error is not None)
            return Score.unscored(reason=_REASON, answer=answer, explanation=reasons, metadata=metadata)
        return Score(value=value, answer=answer, explanation=reasons, metadata=metadata)

    return score


def _reply(state: TaskState) -> Sequence[ChatMessage]:
    """Messages of a conversation from the model's first one on; those of the sample's input are not its own."""
    given = (
        0 if isinstance(state.input, str) else sum(isinstance(message, ChatMessageAssistant) for message in state.input)
    )
    replies = [at for at, message in enumerate(state.messages) if isinstance(message, ChatMessageAssistant)]
    return state.messages[replies[given] :] if len(replies) > given else []


def _turns(messages: Sequence[ChatMessage]) -> list[dict[str, object]]:
    turns = []
    for message in messages:
        turn: dict[str, object] = {"role": message.role, "content": message.text}
        if isinstance(message, ChatMessageAssistant):
            calls = message.tool_calls or []
            turn["tool_calls"] = [{"name": call.function, "arguments": call.arguments} for call in calls]
        if isinstance(message, ChatMessageTool):
            turn["name"] = message.function
            turn["content"] = message.error.message if message.error else message.text
        turns.append(turn)
    return turns
