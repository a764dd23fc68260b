"""Rubric rewards for TRL: an async reward function for `GRPOTrainer(reward_funcs=[RubricReward(grader)])`.

The dataset needs a column with each sample's rubric (JSON, a dict or a `Rubric`). Optional columns: `sample_id` names
the scorecards; `question` (default: the prompt) is shown to a checklist's judge beside the response; the judge of a
grader with `subject="answer"` is shown the whole prompt and the column `answer`, the reference answer; `image` or
`images` is shown to the judge of a grader with `exposure="image"`, all of them where a row has several. A completion is
a text or an image, see `rows.completion_response`; of several turns the last reply is graded, or all with
`view="full_trace"`. The reward of a response that could not be judged is None, which TRL excludes from the baseline and
the loss; so is that of a row whose image cannot be read. `GroupReward`, RLR³'s, depends on the whole group. Both can be
pickled, as AsyncGRPOTrainer needs, which scores in a process of its own; the verdicts are in TRL's table of
completions.

`score` returns rewards and scorecards. TRL accepts numbers only, so `__call__` returns the rewards and passes the
scorecards to `sink`.
"""

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from rubricworks.adapters.rows import (
    IMAGE_COLUMNS,
    NO_IMAGE,
    Columns,
    View,
    batch_images,
    completion_response,
    completion_text,
    conversation_text,
    prompt_sample,
)
from rubricworks.adapters.started_calls import StartedCalls
from rubricworks.data.rubric_sets.entries import rubric_of_column
from rubricworks.data.tables import Sample
from rubricworks.errors import UserError
from rubricworks.grading.requests import describe_target
from rubricworks.rewards import format_mask, group_rewards, signed_reward
from rubricworks.rubrics import Criterion, Response, Rubric, Scorecard

Reduce = Callable[[Sequence[float | None], Sequence[float]], float | None]
"""Maps the credits and weights of one scorecard to a reward, or None if a credit is missing."""


class GradesOne(Protocol):
    """Grader of one response: `Grader`, `Cascade`, `BoxedGrader`, `mlflow_traces.TracedGrader`, or your own."""

    @property
    def exposure(self) -> str:
        """Parts of the sample that the judge sees besides the response; with `image` the sample needs its image."""

    async def grade(self, sample: Sample, response: str | Response, rubric: Rubric, /) -> Scorecard:
        """Grade by a rubric; a criterion that could not be judged has a credit of None."""


class RubricScores(NamedTuple):
    """Rewards and scorecards of a batch, aligned with its rows."""

    rewards: list[float | None]
    scorecards: list[Scorecard]


class RubricReward:
    """TRL reward function that grades each completion by its sample's rubric."""

    __name__ = "rubric_reward"

    def __init__(
        self,
        grader: GradesOne,
        *,
        rubric_column: str = "rubric",
        reduce: Reduce = signed_reward,
        criterion: str | None = None,
        sink: Callable[[list[Scorecard]], object] | None = None,
        view: View = "last_reply",
    ) -> None:
        """
        Args:
            rubric_column: column with each row's rubric.
            reduce: maps a scorecard's credits and the rubric's weights to a reward. The default is `weighted_reward`
                where all weights are positive, and takes away a met pitfall, a criterion of negative weight.
            criterion: key, or title, of the criteria whose passes are logged (TRL's `log_extra`, column `passes`).
            sink: called with the scorecards of each batch that `__call__` rewards.
            view: what is graded of a completion of several turns; see `rows.View`.
        """
        self.grader = grader
        self.view: View = view
        self.criterion = criterion
        self.rubric_column = rubric_column
        self.reduce = reduce
        self.sink = sink
        self._calls: StartedCalls[Scorecard] = StartedCalls()

    async def start(
        self, rows: Sequence[int], prompts: Sequence[Any], completions: Sequence[Any], **columns: Any
    ) -> None:
        """Start to grade some rows of the next batch, whose scorecards `score` takes.

        Args:
            rows: their positions in the batch; the other arguments are those of `score`, for these rows only.
        """
        gradings = self._gradings(
            self._samples(prompts, len(completions), columns), self._rubrics(columns), completions
        )
        self._calls.start(self.grader.grade, dict(zip(rows, gradings, strict=True)))

    async def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
        """Return the rewards and pass the scorecards to the sink."""
        scores = await self.score(prompts, completions, **columns)
        if self.sink is not None:
            self.sink(scores.scorecards)
        return scores.rewards

    async def score(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> RubricScores:
        """Return one reward and one scorecard per completion; the reward is None if a verdict is an error."""
        rubrics = self._rubrics(columns)
        samples = self._samples(prompts, len(completions), columns)
        scorecards = await self._calls.gather(self.grader.grade, self._gradings(samples, rubrics, completions))
        rewards = self._rewards(scorecards, rubrics, samples, {**columns, "completions": completions})
        if log_metric := columns.get("log_metric"):
            log_metric("rubric_reward/unjudged", sum(reward is None for reward in rewards) / max(len(rewards), 1))
        if log_extra := columns.get("log_extra"):
            pairs = list(zip(scorecards, rubrics, strict=True))
            log_extra("verdicts", [verdict_text(card, rubric) for card, rubric in pairs])
            if self.criterion is not None:
                log_extra("passes", [_passes(card, rubric, self.criterion) for card, rubric in pairs])
        return RubricScores(rewards, scorecards)

    def _rewards(
        self,
        scorecards: Sequence[Scorecard],
        rubrics: Sequence[Rubric],
        samples: Sequence[Sample],
        columns: Columns,
    ) -> list[float | None]:
        return [self.reduce(card.credits, rubric.weights) for card, rubric in zip(scorecards, rubrics, strict=True)]

    def _gradings(
        self, samples: Sequence[Sample], rubrics: Sequence[Rubric], completions: Sequence[Any]
    ) -> list[tuple[Sample, Response, Rubric]]:
        """Arguments of the grader for each row."""
        return [
            (sample, completion_response(completion, sample.sample_id, self.view), rubric)
            for sample, completion, rubric in zip(samples, completions, rubrics, strict=True)
        ]

    def _rubrics(self, columns: Columns) -> list[Rubric]:
        if self.rubric_column not in columns:
            raise UserError(
                f"the training rows have no column {self.rubric_column!r}, only {', '.join(sorted(columns)) or 'none'}"
                "; add it, or name another with rubric_column"
            )
        return [self.parse_rubric(value, row) for row, value in enumerate(columns[self.rubric_column])]

    def _samples(self, prompts: Sequence[Any], count: int, columns: Columns) -> list[Sample]:
        """Sample of each row, with its image only if the grader shows images."""
        names = columns.get("sample_id") or [f"row-{row}" for row in range(count)]
        questions = columns.get("question") or [None] * count
        answers = columns.get("answer") or [None] * count
        shown = conversation_text if getattr(self.grader, "subject", "caption") == "answer" else completion_text
        images: list[tuple[bytes, ...]] = [()] * count
        if self.grader.exposure == "image":
            of_rows = batch_images(columns)
            if of_rows is None:
                raise UserError(
                    f"the judge is to see the images, and the training rows have no column {', '.join(IMAGE_COLUMNS)}"
                )
            images = [several or (NO_IMAGE,) for several in of_rows]
        return [
            prompt_sample(str(name), several, prompt=shown(prompt), question=question, answer=_words(answer))
            for name, several, prompt, question, answer in zip(names, images, prompts, questions, answers, strict=True)
        ]

    def parse_rubric(self, value: Any, row: int) -> Rubric:
        """Rubric of a row's column: a `Rubric`, a dict, a list of criteria, or JSON of one of them; null is no value.

        Raises:
            UserError: it is none.
        """
        if isinstance(value, Rubric):
            return value
        try:
            return _parse_rubric(value if isinstance(value, str) else json.dumps(rubric_of_column(value)))
        except (ValueError, TypeError, RecursionError) as error:
            reason = " ".join(str(error).split())[:300]
            raise UserError(
                f"column {self.rubric_column!r}, row {row} of the batch is not a rubric: {reason}"
            ) from None


class GroupReward(RubricReward):
    """RLR³'s reward (section 4.3): group-wise remapping, gate on essential criteria, format and length mask."""

    def __init__(
        self,
        grader: GradesOne,
        *,
        group_size: int,
        max_tokens: int | None = None,
        end_ids: Collection[int] = (),
        rubric_column: str = "rubric",
        remap: bool = True,
        gate: bool = True,
        mask: bool = True,
        criterion: str | None = None,
        sink: Callable[[list[Scorecard]], object] | None = None,
        view: View = "last_reply",
    ) -> None:
        """
        Args:
            group_size: rollouts per sample; those of one sample must be adjacent, as in TRL's batches.
            max_tokens: a response that has not ended within this length is truncated and earns 0.
            end_ids: tokens that end a response, by which one that ends at `max_tokens` is whole; a run's trainer sets
                those of its model.
            remap, gate, mask: the three parts, each optional for ablations; without them the reward is the weighted
                mean. With `view="full_trace"` each of the policy's turns must pass the mask, and no tool's answer.
            rubric_column, criterion, sink, view: as for `RubricReward`.
        """
        super().__init__(grader, rubric_column=rubric_column, criterion=criterion, sink=sink, view=view)
        self.group_size, self.max_tokens, self.end_ids = group_size, max_tokens, end_ids
        self.remap, self.gate, self.mask = remap, gate, mask

    def _rewards(
        self,
        scorecards: Sequence[Scorecard],
        rubrics: Sequence[Rubric],
        samples: Sequence[Sample],
        columns: Columns,
    ) -> list[float | None]:
        valid = self._valid(scorecards, rubrics, samples, columns)
        rewards: list[float | None] = []
        for group, rubric in whole_groups(rubrics, self.group_size):
            if rubric.has_pitfalls:
                raise UserError(
                    f"sample {samples[group.start].sample_id}: its rubric has a negative weight, and RLR³'s reward, "
                    "which remaps and gates, knows no pitfalls; use RubricReward, or make the pitfall a criterion to "
                    "meet"
                )
            rewards += group_rewards(
                [card.credits for card in scorecards[group]],
                rubric.weights,
                essential=rubric.essential,
                valid=valid[group],
                remap=self.remap,
                gate=self.gate,
            )
        return rewards

    def _valid(
        self,
        scorecards: Sequence[Scorecard],
        rubrics: Sequence[Rubric],
        samples: Sequence[Sample],
        columns: Columns,
    ) -> list[bool]:
        """Return, per row, True if the response is not truncated and passes the format mask."""
        tokens = columns.get("completion_ids")
        in_time = [True] * len(rubrics)
        if self.max_tokens is not None and tokens is not None:
            in_time = [
                len(ids) < self.max_tokens or (len(ids) == self.max_tokens and ids[-1] in self.end_ids)
                for ids in tokens
            ]
        if not self.mask:
            return in_time
        return [
            ends and self._passes_mask(completion, card, sample, rubric)
            for ends, completion, card, sample, rubric in zip(
                in_time, columns["completions"], scorecards, samples, rubrics, strict=True
            )
        ]

    def _passes_mask(self, completion: Any, card: Scorecard, sample: Sample, rubric: Rubric) -> bool:
        texts = [card.response.require_text(f"sample {sample.label}: the format mask")]
        if self.view == "full_trace" and isinstance(completion, list | tuple):
            texts = [completion_text([turn]) for turn in completion if turn.get("role", "assistant") == "assistant"]
        allowed = [sample.question or sample.prompt, *map(_ground_truth, rubric.criteria)]
        return all(format_mask(text, allowed=allowed) for text in texts)


def whole_groups(rubrics: Sequence[Rubric], group_size: int) -> Iterator[tuple[slice, Rubric]]:
    """Rows of each group of a batch, with its rubric.

    Raises:
        UserError: a group is incomplete, or its rows have different rubrics.
    """
    for start in range(0, len(rubrics), group_size):
        group = slice(start, start + group_size)
        rubric = rubrics[start]
        if len(rubrics[group]) < group_size or any(other != rubric for other in rubrics[group]):
            raise UserError(
                f"rows {start} to {start + group_size - 1} of the batch are not one group of {group_size} responses to "
                "one sample; let each process hold whole groups"
            )
        yield group, rubric


def _words(answer: Any) -> str | None:
    return None if answer is None else str(answer)


def verdict_text(card: Scorecard, rubric: Rubric) -> str:
    """Verdicts in one cell of TRL's table of completions, a line each: title, weight, and credit or error."""
    return "\n".join(
        f"{criterion.criterion} ({criterion.weight:+g}): {verdict.error or f'{verdict.credit:g}'}"
        for verdict, criterion in zip(card.verdicts, rubric.criteria, strict=True)
    )


def _passes(card: Scorecard, rubric: Rubric, key: str) -> bool | None:
    """Return True if all criteria of a key, or title, are met and pitfalls are not; None without a verdict.

    A credit above one half is met: of a judge's probability the likelier score, and of RLR³'s credits 1 alone.
    """
    passes = [
        None if credit is None else (credit > 0.5 if criterion.weight > 0 else credit < 0.5)
        for credit, criterion in zip(card.credits, rubric.criteria, strict=True)
        if key in (criterion.key, criterion.criterion)
    ]
    if not passes or None in passes:
        return None
    return all(passes)


def _ground_truth(criterion: Criterion) -> str:
    """Reference of a criterion as text, without the verifier's name, which is English in every language."""
    return criterion.reference if criterion.verifier is None else describe_target(criterion.reference)


@lru_cache(maxsize=4096)
def _parse_rubric(text: str) -> Rubric:
    """Parse a rubric; cached, as the rollouts of a group and later epochs repeat it."""
    return Rubric.model_validate(rubric_of_column(json.loads(text)))
