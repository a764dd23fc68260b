"""BalCapRL's three rewards of a caption as TRL reward functions: `GRPOTrainer(reward_funcs=list(rewards.functions))`.

The dataset needs the column `reference` and an image per row: `image_bytes` (encoded), else TRL's `image` or `images`;
`sample_id` identifies the sample. TRL calls the three functions concurrently with the same rows: the first call grades
the batch and the others await that grading, so a rollout has all three rewards or none.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from rubricworks.adapters.rows import IMAGE_COLUMNS, NO_IMAGE, Columns, batch_images, completion_text
from rubricworks.adapters.started_calls import StartedCalls
from rubricworks.errors import UserError
from rubricworks.grading import AssertionGrader, GradedCaption
from rubricworks.rewards import length_gate, linear_length_penalty

RewardFunction = Callable[..., Awaitable[list[float | None]]]


class Lengths(NamedTuple):
    """Lengths of one caption and its reference, in tokens."""

    caption: int
    reference: int


class CaptionLengths:
    """Length of captions and references in tokens of the policy's tokenizer."""

    def __init__(
        self,
        count_tokens: Callable[[str], int],
        *,
        end_tokens: Collection[int] = (),
        reference_column: str = "reference",
    ) -> None:
        """
        Args:
            count_tokens: returns the number of tokens of a text, special tokens excluded.
            end_tokens: ids of end, padding and marker tokens, excluded from a caption's length.
        """
        self._count, self._end_tokens = lru_cache(maxsize=4096)(count_tokens), frozenset(end_tokens)
        self.reference_column = reference_column

    def measure(self, completions: Sequence[Any], columns: Columns) -> list[Lengths]:
        """Return one `Lengths` per completion, from `completion_ids` if the columns have them, else from the text.

        Raises:
            UserError: the reference column is missing, or a reference is not text or has no tokens.
        """
        if self.reference_column not in columns:
            raise UserError(
                f"the training rows have no column {self.reference_column!r}, only {', '.join(sorted(columns))}; add "
                "it, or name another with reference_column"
            )
        ids = columns.get("completion_ids")
        captions = (
            [sum(token not in self._end_tokens for token in row) for row in ids]
            if ids is not None
            else [self._count(completion_text(completion)) for completion in completions]
        )
        texts, names = columns[self.reference_column], row_names(len(completions), columns)
        for text, name in zip(texts, names, strict=True):
            if not isinstance(text, str):
                raise UserError(f"sample {name}: its reference is {text!r:.80}; give one caption as text")
        references = [self._count(text) for text in texts]
        if 0 in references:
            name = names[references.index(0)]
            raise UserError(f"sample {name}: its reference is empty, and no length compares with 0; leave it out")
        return [Lengths(*pair) for pair in zip(captions, references, strict=True)]


class CaptionGrade(NamedTuple):
    """A rewarded caption with its grading."""

    graded: GradedCaption
    lengths: Lengths
    gate_shut: bool
    """True if the caption's length is outside the gate, so that its linguistic reward is 0."""


class LengthPenalty:
    """Linear length penalty, the alternative to the gate (appendix A.9), subtracted from the normalised advantage."""

    def __init__(self, lengths: CaptionLengths, *, lower: float, upper: float, scale: float) -> None:
        self.lengths, self.lower, self.upper, self.scale = lengths, lower, upper, scale

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float]:
        """Penalty to subtract from each rollout's advantage, at least 0."""
        lengths = self.lengths.measure(completions, columns)
        return [linear_length_penalty(*pair, self.lower, self.upper, self.scale) for pair in lengths]


class CaptionRewards:
    """Precision, recall and linguistic reward functions that share one grading per batch."""

    def __init__(
        self,
        grader: AssertionGrader,
        *,
        count_tokens: Callable[[str], int],
        gate: tuple[float, float] | None = (0.5, 2.0),
        reference_column: str = "reference",
        end_tokens: Collection[int] = (),
        sink: Callable[[list[CaptionGrade]], object] | None = None,
    ) -> None:
        """
        Args:
            count_tokens, end_tokens: see `CaptionLengths`.
            gate: bounds of caption length / reference length outside which the linguistic reward is 0; None = no gate.
            sink: called once with the grades of each batch.
        Raises:
            ValueError: the gate is not a valid range.
        """
        if gate is not None:
            length_gate(1, 1, *gate)
        self.grader, self.gate = grader, gate
        self.lengths = CaptionLengths(count_tokens, end_tokens=end_tokens, reference_column=reference_column)
        self.functions: tuple[RewardFunction, ...] = (self.precision_reward, self.recall_reward, self.linguistic_reward)
        self.sink = sink
        self._batch: _Batch | None = None
        self._calls: StartedCalls[GradedCaption] = StartedCalls()

    async def start(
        self, rows: Sequence[int], prompts: Sequence[Any], completions: Sequence[Any], **columns: Any
    ) -> None:
        """Start to grade some rows of the next batch; see `adapters.trl.RubricReward.start`."""
        self._calls.start(self.grader.grade, dict(zip(rows, self._gradings(completions, columns), strict=True)))

    async def precision_reward(self, prompts: Any, completions: Any, **columns: Any) -> list[float | None]:
        """Share of the caption's assertions that are true of the image."""
        return await self._reward(0, completions, columns)

    async def recall_reward(self, prompts: Any, completions: Any, **columns: Any) -> list[float | None]:
        """Share of the reference's assertions that the caption covers."""
        return await self._reward(1, completions, columns)

    async def linguistic_reward(self, prompts: Any, completions: Any, **columns: Any) -> list[float | None]:
        """Mean of clarity, fluency and coherency; 0 where the length gate is shut."""
        return await self._reward(2, completions, columns)

    async def _reward(self, part: int, completions: Sequence[Any], columns: Columns) -> list[float | None]:
        texts = [completion_text(completion) for completion in completions]
        rows = (texts, columns.get(self.lengths.reference_column), row_names(len(texts), columns), _pixels(columns))
        if self._batch is None or not self._batch.serves(part, rows):
            self._batch = _Batch(rows, asyncio.ensure_future(self._grade(completions, columns)))
        return [None if rewards is None else rewards[part] for rewards in await self._batch.rewards(part)]

    async def _grade(self, completions: Sequence[Any], columns: Columns) -> list[tuple[float, ...] | None]:
        lengths = self.lengths.measure(completions, columns)
        graded = await self._calls.gather(self.grader.grade, self._gradings(completions, columns))
        gate = self.gate
        shut = [gate is not None and not length_gate(*pair, *gate) for pair in lengths]
        grades = [CaptionGrade(*row) for row in zip(graded, lengths, shut, strict=True)]
        rewards = [_rewards(grade) for grade in grades]
        if self.sink is not None:
            self.sink(grades)
        if log_metric := columns.get("log_metric"):
            log_metric("captions/unjudged", sum(reward is None for reward in rewards) / max(len(rewards), 1))
            log_metric("captions/gated", sum(shut) / max(len(shut), 1))
        return rewards

    def _gradings(self, completions: Sequence[Any], columns: Columns) -> list[tuple[Any, ...]]:
        """Arguments of the grader for each row."""
        texts = [completion_text(completion) for completion in completions]
        names = row_names(len(texts), columns)
        references = columns[self.lengths.reference_column]
        return list(zip(names, _images(names, columns), texts, references, strict=True))


class _Batch:
    """One grading awaited by several reward functions; each function reads the result once."""

    def __init__(self, rows: Any, grading: "asyncio.Future[list[tuple[float, ...] | None]]") -> None:
        self._rows, self._grading = rows, grading
        self._served: set[int] = set()
        self._waiting = 0

    def serves(self, part: int, rows: Any) -> bool:
        """Return True if this grades `rows` and the function `part` has not read its result yet."""
        if part in self._served or self._grading.cancelled() or rows != self._rows:
            return False
        return self._grading.done() or self._grading.get_loop() is asyncio.get_running_loop()

    async def rewards(self, part: int) -> list[tuple[float, ...] | None]:
        """Await the grading; it is cancelled only when the last waiting function is cancelled."""
        self._served.add(part)
        self._waiting += 1
        try:
            return await asyncio.shield(self._grading)
        except asyncio.CancelledError:
            if self._waiting == 1:
                self._grading.cancel()
            raise
        finally:
            self._waiting -= 1


def row_names(count: int, columns: Columns) -> list[str]:
    """Sample ids of the rows, or `row-N` if there is no such column."""
    return [str(name) for name in columns.get("sample_id") or (f"row-{row}" for row in range(count))]


def _rewards(grade: CaptionGrade) -> tuple[float, ...] | None:
    scores = grade.graded.scores
    if scores is None or scores.precision is None or scores.recall is None:
        return None
    return scores.precision, scores.recall, 0.0 if grade.gate_shut else scores.linguistic


def _pixels(columns: Columns) -> list[int]:
    """Object identity of each row's image, as a key that needs no decoding."""
    return [id(image) for image in _image_column(columns)]


def _images(names: Sequence[str], columns: Columns) -> list[bytes]:
    """Encoded image of each row."""
    images = batch_images(columns)
    assert images is not None, "the batch's key needs the column, too"
    for name, several in zip(names, images, strict=True):
        if len(several) > 1:
            raise UserError(f"sample {name}: its row has {len(several)} images, and a caption is of one; give it one")
    return [several[0] if several else NO_IMAGE for several in images]


def _image_column(columns: Columns) -> Sequence[Any]:
    for name in IMAGE_COLUMNS:
        if columns.get(name) is not None:
            return list(columns[name])
    given = f"{', '.join(map(repr, IMAGE_COLUMNS[:-1]))} or {IMAGE_COLUMNS[-1]!r}"
    raise UserError(f"the training rows have no column {given}; the judge is to see images")
