"""Scorer: a protocol that measures responses, as its settings with a function from samples and responses to scores.

Each scorer is a module here and a field of `scorer_table.Scorers`, by whose name recipes configure it. It has a name, a
version, parts (the figures it gives), needs, and a plan of its calls. `Scorer.open` gives the function for the time of
a stage. A response that cannot be judged gets a score without a value, and a failed call for the dead letters.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, cast

from pydantic import BaseModel, model_validator

from rubricworks.data.tables import Sample
from rubricworks.errors import UserError
from rubricworks.evaluation.own_prompts import PROMPTS_OF_SCORER, PURPOSES, OwnPrompt, OwnPromptClient, OwnPromptName
from rubricworks.evaluation.scoreboard import figure_name
from rubricworks.evaluation.scorers.caption_prompts import StoredExam
from rubricworks.grading import FailedCall
from rubricworks.llm import ChatClient, ChatError, Endpoint
from rubricworks.llm.usage import PlannedCalls
from rubricworks.rubrics import Response, Rubric

if TYPE_CHECKING:
    from rubricworks.evaluation.models import EvaluatedModel
    from rubricworks.evaluation.scorers.comparisons.pairwise import PositionTally

Need = Literal["rubric", "exam", "reference", "answer", "opponent"]
"""What a scorer needs: a part of a sample, or the opponent's response."""


class Score(BaseModel, extra="forbid", frozen=True, allow_inf_nan=False):
    """Number of one part of a scorer for one response, or None with the reason."""

    sample_id: str | None
    """None for a score of all samples together, such as CIDEr."""
    value: float | None
    part: str = "score"
    against: str | None = None
    """The other model of a comparison; by default the stage's opponent."""
    reason: str | None = None
    """Reason for a missing value."""
    evidence: str | None = None
    """JSON of what the value was computed from; in the scorer's first part alone."""

    @model_validator(mode="after")
    def _value_or_reason(self) -> "Score":
        if (self.value is None) == (self.reason is None):
            raise ValueError(f"score of {self.sample_id}: give either a value or the reason why there is none")
        return self


class Item(NamedTuple):
    """One response to score."""

    sample: Sample
    response: Response
    opponent: Response | None = None
    """The opponent's response to the same sample."""
    model: str = ""
    """Model that responded."""
    field: Mapping[str, Response] = {}
    """Model → response to the same sample with the same decoding, of all models in the order of the evaluation; for
    scorers with `needs_field`.
    """
    variants: Mapping[str, Response] = {}
    """Variant of the prompt → response to it, of the scorer's own `variants`."""

    @property
    def text(self) -> str:
        """Text of the response.

        Raises:
            UserError: the response is an image.
        """
        return self.text_of(self.response)

    @property
    def image(self) -> bytes:
        """Image of the sample.

        Raises:
            UserError: the sample has none.
        """
        return self.sample.require_image("this scorer compares the response with it")

    @property
    def opponent_text(self) -> str:
        """Text of the opponent's response; empty if there is none."""
        return self.text_of(self.opponent) if self.opponent else ""

    def text_of(self, response: Response) -> str:
        if response.text is None:
            raise UserError(f"sample {self.sample.sample_id}: the response is an image, and this scorer reads texts")
        return response.text


ScoreItem = Callable[[Item], Coroutine[Any, Any, list[Score]]]
"""Scores of one response, one per part; it raises `ChatError` if the response cannot be judged."""
ScoreBatch = Callable[[Sequence[Item]], Coroutine[Any, Any, list[Score]]]
"""Scores of a batch of one model's responses: any number per response, in any order."""


SPEEDS = "benchmark_speeds"
"""Field of the ledger's line of the stage `score`."""


class BenchmarkSpeed(NamedTuple):
    """Speed at which models served here answered a set of benchmarks, for later plans."""

    set: str
    answers: int
    tokens: int
    """Tokens of the answers."""
    seconds: float


@dataclass(frozen=True)
class Workload:
    """Number of responses that a plan is made for."""

    responses: int
    compared: int
    """Responses of models other than the opponent."""
    models: int = 1
    """Models, each with each decoding and milestone."""


def _no_scratch(name: str) -> Path:
    raise UserError(f"{name}: this scorer runs in the stage score alone")


async def _no_stream(calls: Iterator[Coroutine[Any, Any, Any]], at_once: int) -> list[Any]:
    raise UserError("this scorer runs in the stage score alone")


def _no_server(folder: str) -> str:
    raise UserError(f"{folder}: models are served in the stage score alone")


@dataclass
class ScoringContext:
    """Clients, references and callbacks that a stage lends to its scorers."""

    stack: AsyncExitStack
    """Closes clients with the stage."""
    make_client: Callable[[Endpoint, str], ChatClient]
    gather: Callable[[Iterable[Coroutine[Any, Any, list[Score]]]], Awaitable[list[list[Score]]]]
    """Run coroutines concurrently, with the stage's budget and early stop."""
    on_failure: Callable[[FailedCall], None]
    stream: Callable[[Iterator[Coroutine[Any, Any, list[Score]]], int], Awaitable[list[list[Score]]]] = _no_stream
    """Run a bounded number of coroutines at a time and create the next when there is room, so that they need not fit in
    memory.
    """
    rubrics: Mapping[str, Rubric] = field(default_factory=dict)
    """Sample → rubric."""
    exams: Mapping[str, StoredExam] = field(default_factory=dict)
    """Sample → exam."""
    seed: int = 1
    scratch: Callable[[str], Path] = _no_scratch
    """Folder of a name for files that vary between runs."""
    serve: Callable[[str], str] = _no_server
    """Serve a model directory, one at a time; returns the base URL."""
    tallies: "dict[str, PositionTally]" = field(default_factory=dict)
    """Scorer → positions that its pairwise judge prefers; the stage refuses scores of a judge that always names one."""
    prompts: Mapping[OwnPromptName, OwnPrompt] = field(default_factory=dict)
    """Prompts of the user's own."""
    speeds: list[BenchmarkSpeed] = field(default_factory=list)
    """Speed of every measurement of a model that is served here."""

    async def client(self, endpoint: Endpoint, purpose: str) -> ChatClient:
        """Open a client for a purpose, as the ledger names it."""
        client = await self.stack.enter_async_context(self.make_client(endpoint, purpose))
        if not any(name in self.prompts for name in PURPOSES.get(purpose, ())):
            return client
        return cast(ChatClient, OwnPromptClient(client, purpose, self.prompts))


class Scorer(BaseModel, ABC, extra="forbid", frozen=True, allow_inf_nan=False):
    """Settings of a scorer."""

    name: ClassVar[str]
    version: ClassVar[str] = "1"
    """Changes with prompts and formulas: scores of two versions are not compared."""
    title: ClassVar[str]
    parts: ClassVar[tuple[str, ...]] = ("score",)
    """Figures that it gives, the most important first."""
    needs: ClassVar[frozenset[Need]] = frozenset()
    by_task: ClassVar[bool] = False
    """True if the mean is over tasks (macro average), as benchmarks of several tasks report it."""
    only_whole: ClassVar[bool] = False
    """True if there is no mean unless every sample of every task has a score, as in published benchmarks."""
    unbounded: ClassVar[tuple[str, ...]] = ()
    """Parts whose values do not lie in [0, 1], such as ranks."""
    lower_is_better: ClassVar[tuple[str, ...]] = ()
    """Parts for which lower is better, such as ranks."""
    needs_corpus: ClassVar[bool] = False
    """True if a batch is all responses of a model, without the samples' images."""
    measures_models: ClassVar[bool] = False
    """True if it calls the model itself (`measure`) instead of reading responses."""
    needs_field: ClassVar[bool] = False
    """True if it compares a response with the responses of all other models."""

    @abstractmethod
    async def open(self, context: ScoringContext) -> ScoreItem:
        """Open clients and return the function that scores one response."""

    async def open_batch(self, context: ScoringContext) -> ScoreBatch:
        """Open clients and return the function that scores a batch: all responses concurrently."""
        score = await self.open(context)

        async def score_batch(items: Sequence[Item]) -> list[Score]:
            results = await context.gather(self._guarded(context, item, score) for item in items)
            return [score for scores in results for score in scores]

        return score_batch

    async def measure(self, model: "EvaluatedModel", context: "ScoringContext") -> list[Score]:
        """Scores of a model that is asked itself; for scorers with `measures_models`."""
        return []

    def unavailable(self) -> str | None:
        """Reason why it cannot score on this machine, such as a missing program, package or data file; or None."""
        return None

    def variants(self, prompt: str) -> dict[str, str]:
        """Variant → prompt, of further prompts that every model responds to for this scorer."""
        return {}

    @property
    def prompt_names(self) -> tuple[OwnPromptName, ...]:
        """Prompts that it sends, and that a file of the user's own may replace."""
        return PROMPTS_OF_SCORER.get(self.name, ())

    def figure_parts(self) -> tuple[str, ...]:
        """Parts that it gives with these settings."""
        return self.parts

    def plan(self, work: Workload) -> Iterator[PlannedCalls]:
        """Yield the calls that scoring needs; none for a scorer without a model."""
        yield from ()

    def titles(self) -> dict[str, str]:
        """Figure → name on pages."""
        return {
            figure_name(self.name, part): (
                self.title
                if len(self.figure_parts()) == 1 or part == "score"
                else f"{self.title}, {part.replace('_', ' ')}"
            )
            + (" (lower is better)" if part in self.lower_is_better else "")
            for part in self.figure_parts()
        }

    def judges(self) -> str:
        """Names of the judging models, joined by ` + `; empty without any."""
        models = [endpoint.model for endpoint in self._endpoints()]
        return " + ".join(dict.fromkeys(models))

    def _endpoints(self) -> Iterator[Endpoint]:
        for name in type(self).model_fields:
            if isinstance(value := getattr(self, name), Endpoint):
                yield value

    async def _guarded(self, context: ScoringContext, item: Item, score: ScoreItem) -> list[Score]:
        """Score one response; if its call fails, its scores have no value."""
        try:
            return await score(item)
        except ChatError as error:
            context.on_failure(self.failed_call(item, error))
            return self._missing(item, error.error_class.value)

    def failed_call(self, item: Item, error: ChatError) -> FailedCall:
        """Dead letter of a response that could not be judged."""
        judge = self.judges() or self.name
        return FailedCall(item.sample.sample_id, item.response, judge, (self.name,), error)

    def _missing(self, item: Item, reason: str) -> list[Score]:
        """Scores without a value, one per part."""
        return [
            Score(sample_id=item.sample.sample_id, part=part, value=None, reason=reason) for part in self.figure_parts()
        ]

    def _scores(self, item: Item, values: Sequence[float], evidence: str | None = None) -> list[Score]:
        """Scores of all parts, in their order; the first has the evidence."""
        return [
            Score(sample_id=item.sample.sample_id, part=part, value=value, evidence=None if number else evidence)
            for number, (part, value) in enumerate(zip(self.figure_parts(), values, strict=True))
        ]


async def gather_all(*calls: Coroutine[Any, Any, Any]) -> list[Any]:
    """Await all calls, whose answers are useful only as a whole, and return their results in order.

    Raises:
        ChatError: of the first call in order that failed. Exceptions of other types take precedence.
    """
    results = await asyncio.gather(*calls, return_exceptions=True)
    failures = [result for result in results if isinstance(result, BaseException)]
    for failure in sorted(failures, key=lambda error: isinstance(error, ChatError)):
        raise failure
    return results
