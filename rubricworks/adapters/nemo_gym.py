"""Rubrics as a resources server of NeMo Gym: `app.py` with `RubricResourcesServer.run_webserver()`.

A row of the data holds `rubric` (JSON, an object or a list of criteria) beside `responses_create_params`, and may hold
`sample_id`. The server's configuration names the judges:

    rubric:
      resources_servers:
        rubric:
          entrypoint: app.py
          judges: [{url: "http://judge:8000/v1", model: judge}]

With `subject: answer` the judge is shown the row's whole input. Of a response of several turns the last message is
graded, or with `view: full_trace` all of them, with calls of functions and their outputs, but without reasoning.

A response that could not be judged raises Gym's own `JudgeError`: Gym sets `mask_sample`, and no measure counts it. The
metrics of a row are its criteria, `criterion/TITLE`. Written against nemo-gym 0.7.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseVerifyRequest,
    BaseVerifyResponse,
    ReverifyMode,
    SimpleResourcesServer,
)
from nemo_gym.judge import JudgeError
from pydantic import ConfigDict

from rubricworks.adapters.rows import View
from rubricworks.adapters.trl import RubricReward
from rubricworks.grading import CallPer, Combine, Grader, Subject
from rubricworks.llm import ChatClient, Endpoint


class RubricServerConfig(BaseResourcesServerConfig):  # type: ignore[misc, unused-ignore]
    """Configuration of the server."""

    REVERIFY_MODE = ReverifyMode.STATELESS

    judges: tuple[Endpoint, ...]
    subject: Subject = "caption"
    """`answer`: the judge is shown the row's input and its `answer`, the reference answer."""
    view: View = "last_reply"
    """Part of a response that is graded."""
    call_per: CallPer = "response"
    combine: Combine = "majority"


class RubricVerifyRequest(BaseVerifyRequest):  # type: ignore[misc, unused-ignore]
    """A response with its row."""

    model_config = ConfigDict(extra="allow")

    rubric: Any
    sample_id: str = "row"
    answer: str | None = None
    """Reference answer."""


class RubricVerifyResponse(BaseVerifyResponse):  # type: ignore[misc, unused-ignore]
    """A reward; each criterion's credit stands beside it."""

    model_config = ConfigDict(extra="allow")


class RubricResourcesServer(SimpleResourcesServer):  # type: ignore[misc, unused-ignore]
    """Resources server that has responses graded by their rows' rubrics."""

    config: RubricServerConfig

    @cached_property
    def reward(self) -> RubricReward:
        clients = [ChatClient(judge, purpose="judge") for judge in self.config.judges]
        config = self.config
        grader = Grader(clients, subject=config.subject, call_per=config.call_per, combine=config.combine)
        return RubricReward(grader, view=config.view)

    async def verify(self, body: RubricVerifyRequest) -> RubricVerifyResponse:
        """Grade one response.

        Raises:
            UserError: the row's rubric is none.
            JudgeError: a criterion could not be judged.
        """
        asked = body.responses_create_params
        instructions = [{"role": "system", "content": asked.instructions}] if asked.instructions else []
        turns = [{"role": "user", "content": asked.input}] if isinstance(asked.input, str) else _turns(asked.input)
        columns = {"rubric": [body.rubric], "sample_id": [body.sample_id], "answer": [body.answer]}
        scores = await self.reward.score([[*instructions, *turns]], [list(_turns(body.response.output))], **columns)
        reward, card = scores.rewards[0], scores.scorecards[0]
        if reward is None:
            failed = next(verdict for verdict in card.verdicts if verdict.error is not None)
            raise JudgeError(f"{failed.criterion!r} could not be judged ({failed.error}): {failed.reasoning}")
        credits = {f"criterion/{verdict.criterion}": verdict.credit for verdict in card.verdicts}
        return RubricVerifyResponse(**body.model_dump(), **credits, reward=reward)


def _turns(items: Iterable[Any]) -> Iterator[dict[str, object]]:
    """Messages, calls of functions and their outputs of a Responses object as turns of a chat."""
    for item in items:
        fields = item if isinstance(item, dict) else item.model_dump()
        kind = fields.get("type") or "message"
        if kind == "function_call":
            call = {"name": fields["name"], "arguments": fields["arguments"]}
            yield {"role": "assistant", "content": "", "tool_calls": [call]}
        elif kind == "function_call_output":
            yield {"role": "tool", "content": _text(fields["output"])}
        elif kind == "message":
            yield {"role": fields["role"], "content": _text(fields["content"])}


def _text(content: Any) -> str:
    """Text of a message's parts, and of a refusal, which is a reply, too."""
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or part.get("refusal") or "" for part in content)
