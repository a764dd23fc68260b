"""One row of RLR³'s Table 1: a training corpus before and after filtering, and how well the base model does on it.

A rollout's score is the share of its rubric's weight that it earned, sum(w * credit) / sum(w), before remapping and
gating. The paper says "average rubric score" and no more; this reading needs no group and keeps half credits.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

Rule = Literal["any", "essential", "all"]
"""Which samples are kept: where some rollout has no credit on a criterion, or on an essential one, or all."""


class SourceCounts(BaseModel):
    """What a source held, before anything was trained on: all its splits together."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    raw: int
    """Rows of the source, those that cannot be used included."""
    unusable: int
    duplicates: int
    """Rows that repeat the question of another row about the same picture."""
    deduplicated: int
    """raw - unusable - duplicates."""
    mcq_ratio: float
    """Multiple-choice questions among the de-duplicated."""
    splits: dict[str, int]
    tasks: dict[str, int]
    """Questions by task, among the de-duplicated."""


class GradedSample(NamedTuple):
    """One training sample and what the base model's rollouts earned on it."""

    multiple_choice: bool
    any: bool = False
    """Some rollout has no credit on a criterion."""
    essential: bool = False
    """Likewise, on an essential criterion."""
    initial_reward: float | None = None
    """Mean over its judged rollouts; None without a rubric, or where none could be judged."""

    def passes(self, rule: Rule) -> bool:
        """Whether the rule keeps it; what was not judged is never kept."""
        return self.initial_reward is not None and (rule == "all" or (self.any if rule == "any" else self.essential))


class CorpusStatistics(BaseModel):
    """The row. Ratios and means over nothing are None; so are the source's figures where the source is not known."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    raw: int | None
    deduplicated: int | None
    train: int
    """Training samples after conversion: the filter draws rollouts for those of them that have a rubric."""
    graded: int
    """Those that have a rubric and at least one judged rollout."""
    filtered_any: int
    filtered_essential: int
    kept: int
    """By the rule in use."""
    rule: Rule
    mcq_deduplicated: float | None
    mcq_converted: float | None
    """After multiple-choice questions became open ones, among the training samples."""
    mcq_filtered: float | None
    """Among those kept."""
    initial_reward_converted: float | None
    """Mean over all graded training samples."""
    initial_reward_filtered: float | None
    """Mean over those kept."""


def corpus_statistics(
    samples: Iterable[GradedSample], rule: Rule, source: SourceCounts | None = None
) -> CorpusStatistics:
    """The row of one corpus.

    Args:
        samples: every training sample after conversion, with or without a rubric.
        rule: the one that the training uses.
    """
    every = list(samples)
    judged = [sample for sample in every if sample.initial_reward is not None]
    kept = [sample for sample in judged if sample.passes(rule)]
    return CorpusStatistics(
        name=source.name if source else "",
        raw=source and source.raw,
        deduplicated=source and source.deduplicated,
        train=len(every),
        graded=len(judged),
        filtered_any=sum(sample.passes("any") for sample in judged),
        filtered_essential=sum(sample.passes("essential") for sample in judged),
        kept=len(kept),
        rule=rule,
        mcq_deduplicated=source and source.mcq_ratio,
        mcq_converted=_mean([float(sample.multiple_choice) for sample in every]),
        mcq_filtered=_mean([float(sample.multiple_choice) for sample in kept]),
        initial_reward_converted=_mean([sample.initial_reward or 0.0 for sample in judged]),
        initial_reward_filtered=_mean([sample.initial_reward or 0.0 for sample in kept]),
    )


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
