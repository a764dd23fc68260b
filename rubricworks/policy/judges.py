"""Judges of a rubric's criteria: one endpoint, its log-probabilities, a panel, or a cascade of two.

A recipe writes `judge: {url: …, model: …}` for one model, and names the other kinds by `type`.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from rubricworks.grading import CallPer, Cascade, Combine, Exposure, FailedCall, Grader, require_logprobs
from rubricworks.llm import ChatClient, Endpoint, GivesLogprobs
from rubricworks.llm.usage import PlannedCalls
from rubricworks.runtime.job import Job

OnError = Callable[[FailedCall], None]


class _Judges(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, hide_input_in_errors=True)


class Panel(_Judges):
    """Several judges that grade everything."""

    type: Literal["panel"]
    of: tuple[Endpoint, ...] = Field(min_length=2)
    """Judges of the panel, at least two."""
    combine: Combine = "majority"
    """Rule that merges their credits."""


class LogprobJudge(_Judges):
    """One judge whose credit is its probability of 1, from log-probabilities, as vLLM and OpenAI return them."""

    type: Literal["logprob"]
    judge: Annotated[Endpoint, GivesLogprobs()]
    """Endpoint that returns log-probabilities."""


class CascadeJudge(_Judges):
    """A cheap judge, and a strong one for the criteria that it is unsure of, or fails on."""

    type: Literal["cascade"]
    cheap: Annotated[Endpoint, GivesLogprobs(lambda cascade: cascade.repeats == 1)]
    """Judge of every criterion."""
    strong: Endpoint
    """Judge of the criteria below the confidence."""
    below: float = Field(default=0.9, gt=0.5, le=1)
    """The strong judge decides a criterion if the cheap judge's probability of its own score is below this."""
    repeats: int = Field(default=1, ge=1)
    """Draws of the cheap judge, at its temperature: from two on, the share that agrees is the confidence, for endpoints
    without log-probabilities.
    """


def judge_kind(value: Any) -> str:
    """Return the tag of a judge in the unions below."""
    kind = value.get("type", "endpoint") if isinstance(value, dict) else getattr(value, "type", "endpoint")
    return kind if isinstance(kind, str) else "endpoint"


_One = Annotated[Endpoint, Tag("endpoint")]
_Panel = Annotated[Panel, Tag("panel")]
PanelOrOne = Annotated[_One | _Panel, Discriminator(judge_kind)]
"""One endpoint, or a panel."""
Judge = Annotated[
    _One | _Panel | Annotated[LogprobJudge, Tag("logprob")] | Annotated[CascadeJudge, Tag("cascade")],
    Discriminator(judge_kind),
]
"""Judge of texts, of any kind."""
AnyJudge = Endpoint | Panel | LogprobJudge | CascadeJudge


def graders(judge: AnyJudge) -> tuple[Endpoint, ...]:
    """Endpoints that grade every criterion."""
    match judge:
        case Panel():
            return judge.of
        case LogprobJudge():
            return (judge.judge,)
        case CascadeJudge():
            return (judge.cheap,)
    return (judge,)


def combination(judge: AnyJudge) -> Combine:
    """Rule that merges the credits of the judges."""
    return judge.combine if isinstance(judge, Panel) else "majority"


def describe_judge(judge: AnyJudge) -> str:
    """Models of a judge, for reports."""
    match judge:
        case Panel():
            return f"{', '.join(endpoint.model for endpoint in judge.of)} ({judge.combine})"
        case LogprobJudge():
            return f"{judge.judge.model} (probabilities)"
        case CascadeJudge():
            return f"{judge.cheap.model}, then {judge.strong.model}"
    return judge.model


def grading_plan(judge: AnyJudge, calls: int, tokens_in: int, tokens_out: int) -> list[PlannedCalls]:
    """Plan the grading calls. A strong judge makes at most as many as the cheap one.

    Args:
        calls: of one judge, for all responses.
    """
    draws = judge.repeats if isinstance(judge, CascadeJudge) else 1
    plan = [PlannedCalls("judge", endpoint, draws * calls, tokens_in, tokens_out) for endpoint in graders(judge)]
    if isinstance(judge, CascadeJudge):
        plan.append(PlannedCalls("judge", judge.strong, calls, tokens_in, tokens_out))
    return plan


class OpenJudge:
    """Clients of a judge, and the graders that ask them."""

    def __init__(self, judge: AnyJudge, job: Job, *, call_per: CallPer = "response", exposure: Exposure = "text"):
        self._judge = judge
        self._options: dict[str, Any] = {"call_per": call_per}
        if exposure != "text":
            self._options["exposure"] = exposure
        self.clients: list[ChatClient] = [job.client(endpoint, "judge") for endpoint in graders(judge)]
        self._strong = job.client(judge.strong, "judge") if isinstance(judge, CascadeJudge) else None

    @property
    def draws(self) -> int:
        """Draws of the cheap judge for one grading."""
        return self._judge.repeats if isinstance(self._judge, CascadeJudge) else 1

    def grader(self, on_error: OnError | None = None, *, seed: int = 0, binary: bool = False) -> Grader | Cascade:
        """Make a grader.

        Args:
            on_error: called with each failed call; of a cascade with those of the strong judge, which is asked what the
                cheap one failed on.
            binary: give credits of 0 or 1 also where the judge's probability is the credit.
        """
        judge = self._judge
        make: Callable[..., Grader] = partial(Grader, **self._options, seed=seed)
        if isinstance(judge, CascadeJudge):
            assert self._strong is not None
            if judge.repeats == 1:
                asyncio.run(require_logprobs(self.clients[0]))
            confidence: Literal["logprob", "repeats"] = "logprob" if judge.repeats == 1 else "repeats"
            cheap = make(self.clients, confidence=confidence, repeats=judge.repeats)
            return Cascade(cheap, make(self._strong, on_error=on_error), below=judge.below)
        if isinstance(judge, LogprobJudge) and not binary:
            asyncio.run(require_logprobs(self.clients[0]))
            return make(self.clients, credits="logprob", on_error=on_error)
        return make(self.clients, combine=combination(judge), on_error=on_error)
