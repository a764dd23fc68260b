"""Oracle scores: an endpoint that knows the truth of an image, such as the scene world's `/oracle/score`.

For evaluation only: no training uses it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from pydantic import BaseModel, ValidationError

from rubricworks.environment import fill
from rubricworks.errors import TransientError, UserError
from rubricworks.evaluation.scorers.scorer import Item, Score, ScoreItem, Scorer, ScoringContext
from rubricworks.grading.images.scores import ScorerAnswer
from rubricworks.llm.messages import image_part

if TYPE_CHECKING:
    import aiohttp

_FIELD = "evaluation.scorers.oracle.url"


class OracleScorer(Scorer):
    name: ClassVar[str] = "oracle"
    title: ClassVar[str] = "Oracle"
    parts: ClassVar[tuple[str, ...]] = ("f1", "precision", "recall")

    url: str
    """Endpoint that knows the truth."""

    def titles(self) -> dict[str, str]:
        return {"oracle_f1": "Oracle F1", "oracle_precision": "Oracle precision", "oracle_recall": "Oracle recall"}

    async def open(self, context: ScoringContext) -> ScoreItem:
        oracle = await context.stack.enter_async_context(Oracle(self.url))

        async def grade(item: Item) -> list[Score]:
            (truth,) = await oracle.score(item.image, [item.text])
            return self._scores(item, (truth.f1, truth.precision, truth.recall))

        return grade


class OracleScore(BaseModel, extra="ignore", frozen=True):
    """Precision and recall of a caption against the truth."""

    precision: float
    recall: float
    f1: float


class _Scores(ScorerAnswer):
    scores: list[OracleScore]


class Oracle:
    """Client of one oracle endpoint, used as an async context manager."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> "Oracle":
        import aiohttp

        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session:
            await self._session.close()

    async def score(self, image: bytes, captions: Sequence[str]) -> list[OracleScore]:
        """Score captions of one image, in order.

        Raises:
            UserError: the oracle does not answer, or does not know the image.
        """
        import aiohttp

        assert self._session, "use `async with Oracle(...)`"
        url = fill(self.url, _FIELD)
        request = {"image": image_part(image)["image_url"]["url"], "captions": list(captions)}
        try:
            async with self._session.post(url, json=request, allow_redirects=False) as answer:
                body = await answer.text()
                if answer.status != 200:
                    raise UserError(f"{_FIELD} {url} answered {answer.status}: {body[:200]}")
        except (aiohttp.ClientError, TimeoutError) as error:
            raise TransientError(
                f"{_FIELD} {url} cannot be reached ({type(error).__name__}); is it running?"
            ) from error
        try:
            scores = _Scores.model_validate_json(body).scores
        except ValidationError as error:
            raise UserError(f"{_FIELD} {url} answered something else than scores: {body[:200]}") from error
        if len(scores) != len(captions):
            raise UserError(f"{_FIELD} {url} gave {len(scores)} scores for {len(captions)} captions")
        return scores
