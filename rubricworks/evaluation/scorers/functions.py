"""A user's own function as a scorer: `evaluation: {scorers: {functions: [{function: "my_module:my_scorer"}]}}`.

    async def my_scorer(samples, responses) -> list[Score]: ...

It gets a batch of one model's responses with their samples, and returns `rubricworks.evaluation.Score` values; it may
be a plain function too. A response without a score was not judged, and so was a batch whose function raises.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import Field

from rubricworks.adapters.functions import check_signature, import_function, source_digest
from rubricworks.errors import UserError
from rubricworks.evaluation.scorers.scorer import Item, Score, ScoreBatch, ScoreItem, Scorer, ScoringContext
from rubricworks.grading import FailedCall
from rubricworks.llm import ChatError
from rubricworks.rubrics import ErrorClass

_SIGNATURE = "(samples, responses)"


class FunctionScorer(Scorer):
    function: str = Field(pattern=r"^[\w.]+:\w+$")
    """`module:name` of a function in the working directory or an installed package."""
    penalties: tuple[str, ...] = ()
    """Parts for which lower is better; `score` if the function names none."""

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name of the function."""
        return self.function.rpartition(":")[2]

    @property
    def lower_is_better(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.penalties

    @property
    def title(self) -> str:  # type: ignore[override]
        return self.name.replace("_", " ").capitalize()

    @property
    def version(self) -> str:  # type: ignore[override]
        """Digest of the module's source: scores of an edited function are not mixed with those of the old one."""
        return source_digest(load_scorer(self.function))

    async def open(self, context: ScoringContext) -> ScoreItem:
        score = await self.open_batch(context)
        return lambda item: score([item])

    async def open_batch(self, context: ScoringContext) -> ScoreBatch:
        function = load_scorer(self.function)

        async def score(items: Sequence[Item]) -> list[Score]:
            samples, responses = [item.sample for item in items], [item.response for item in items]
            try:
                scores = function(samples, responses)
                if inspect.isawaitable(scores):
                    scores = await scores
            except Exception as error:
                message = f"scorer {self.function} raised {type(error).__name__}: {' '.join(str(error).split())}"
                failure = ChatError(ErrorClass.RAISED, message, attempts=1)
                for item in items:
                    context.on_failure(
                        FailedCall(item.sample.sample_id, item.response, self.name, (self.name,), failure)
                    )
                return [score for item in items for score in self._missing(item, ErrorClass.RAISED.value)]
            return self._check(scores, items)

        return score

    def _check(self, scores: Any, items: Sequence[Item]) -> list[Score]:
        """Return the function's scores, and one without a value for each response that has none.

        Raises:
            UserError: the function returned something else than scores of these samples.
        """
        if not isinstance(scores, Sequence) or not all(isinstance(score, Score) for score in scores):
            wrong = (
                next((score for score in scores if not isinstance(score, Score)), scores)
                if _is_list(scores)
                else scores
            )
            raise UserError(
                f"scorer {self.function} returned {type(wrong).__name__}; return a list of "
                "rubricworks.evaluation.Score(sample_id=…, value=…)"
            )
        known = {item.sample.sample_id for item in items}
        if strange := [score.sample_id for score in scores if score.sample_id not in known]:
            raise UserError(f"scorer {self.function} scored {strange[0]!r}, which is none of the samples that it got")
        keys = [(score.sample_id, score.part) for score in scores]
        if len(set(keys)) < len(keys):
            sample_id, part = next(key for key in keys if keys.count(key) > 1)
            raise UserError(f"scorer {self.function} scored {sample_id!r} twice in {part!r}; give each part one name")
        scored = {score.sample_id for score in scores}
        parts = dict.fromkeys(score.part for score in scores) or {"score": None}
        missing = [item for item in items if item.sample.sample_id not in scored]
        return [
            *scores,
            *(
                Score(sample_id=item.sample.sample_id, part=part, value=None, reason="the scorer gave no score")
                for item in missing
                for part in parts
            ),
        ]


def load_scorer(name: str) -> Callable[..., Any]:
    """Import a scorer function.

    Raises:
        UserError: there is no such function, or it does not take samples and responses.
    """
    return check_signature(import_function(name), name, _SIGNATURE, [], [])


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)
