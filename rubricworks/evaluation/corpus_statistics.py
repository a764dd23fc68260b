"""Corpus statistics, one row of RLR³'s Table 1: a training corpus before and after filtering, with base model scores.

A rollout's score is the earned share of its rubric's weight, sum(w * credit) / sum(w), before remapping and gating. The
paper says only "average rubric score"; this reading needs no group and keeps half credits.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from pydantic import BaseModel, Field

Rule = Literal["any", "essential", "all"]
"""Filter rule: keep samples with a rollout that fails any criterion, or an essential one; or keep all."""


class SourceCounts(BaseModel, extra="forbid", frozen=True):
    """Counts of a source over all its splits, before filtering."""

    name: str
    source: str = Field(default="", exclude=True)
    """Location of the source as in the recipe; written only if there are several."""
    raw: int
    """Rows of the source, including unusable ones."""
    unusable: int
    duplicates: int
    """Rows that repeat another row's question about the same picture."""
    deduplicated: int
    """raw - unusable - duplicates."""
    mcq_ratio: float
    """Share of multiple-choice questions after de-duplication."""
    splits: dict[str, int]
    tasks: dict[str, int]
    """Questions by task, after de-duplication."""
    corpora: tuple["CorpusCounts", ...] = ()
    """Counts of each source, where a run has several; the other fields are their sums."""


class CorpusCounts(SourceCounts):
    """Counts of one source of several."""

    source: str


def sum_counts(corpora: Sequence[SourceCounts]) -> SourceCounts:
    """Counts of several sources together, with those of each."""
    deduplicated = sum(counts.deduplicated for counts in corpora)
    return SourceCounts(
        name="all",
        raw=sum(counts.raw for counts in corpora),
        unusable=sum(counts.unusable for counts in corpora),
        duplicates=sum(counts.duplicates for counts in corpora),
        deduplicated=deduplicated,
        mcq_ratio=sum(counts.mcq_ratio * counts.deduplicated for counts in corpora) / max(1, deduplicated),
        splits=dict(sum((Counter(counts.splits) for counts in corpora), Counter())),
        tasks=dict(sum((Counter(counts.tasks) for counts in corpora), Counter())),
        corpora=tuple(CorpusCounts(**dict(counts)) for counts in corpora),
    )


def corpus_of(place: str, corpora: Sequence[SourceCounts]) -> int | None:
    """Number of the source that a sample's place lies in: the longest that it begins with."""
    fitting = [
        (len(counts.source), number)
        for number, counts in enumerate(corpora)
        if place == counts.source or place.startswith(tuple(f"{counts.source.rstrip('/')}{mark}" for mark in "/#:"))
    ]
    return max(fitting)[1] if fitting else None


class GradedSample(NamedTuple):
    """Training sample with the results of the base model's rollouts."""

    multiple_choice: bool
    any: bool = False
    """Some rollout fails some criterion."""
    essential: bool = False
    """Some rollout fails some essential criterion."""
    initial_reward: float | None = None
    """Mean over its judged rollouts; None without a rubric or a judged rollout."""

    def passes(self, rule: Rule) -> bool:
        """Return True if the rule keeps the sample; a sample without a judged rollout is never kept."""
        return self.initial_reward is not None and (rule == "all" or (self.any if rule == "any" else self.essential))


class CorpusStatistics(BaseModel, extra="forbid", frozen=True):
    """Row of Table 1. A ratio or mean over no samples is None, as are the source's counts if the source is unknown."""

    name: str
    raw: int | None
    deduplicated: int | None
    train: int
    """Training samples after conversion; the filter draws rollouts for those with a rubric."""
    graded: int
    """Training samples with a rubric and at least one judged rollout."""
    filtered_any: int
    filtered_essential: int
    kept: int
    """Training samples that pass `rule`."""
    rule: Rule
    mcq_deduplicated: float | None
    mcq_converted: float | None
    """Share among the training samples, after conversion to open-ended questions."""
    mcq_filtered: float | None
    """Share among the filtered samples."""
    initial_reward_converted: float | None
    """Mean over all graded training samples."""
    initial_reward_filtered: float | None
    """Mean over the filtered samples."""
    corpora: tuple["CorpusStatistics", ...] = ()
    """Rows of each source, where a run has several."""


def corpus_statistics(
    samples: Iterable[GradedSample], rule: Rule, source: SourceCounts | None = None
) -> CorpusStatistics:
    """Compute the row of one corpus.

    Args:
        samples: every training sample after conversion, with or without a rubric.
        rule: the filter rule of the training.
    """
    every = list(samples)
    judged = [sample for sample in every if sample.initial_reward is not None]
    filtered = [sample for sample in judged if sample.passes(rule)]
    return CorpusStatistics(
        name=source.name if source else "",
        raw=source and source.raw,
        deduplicated=source and source.deduplicated,
        train=len(every),
        graded=len(judged),
        filtered_any=sum(sample.passes("any") for sample in judged),
        filtered_essential=sum(sample.passes("essential") for sample in judged),
        kept=len(filtered),
        rule=rule,
        mcq_deduplicated=source and source.mcq_ratio,
        mcq_converted=_mean([float(sample.multiple_choice) for sample in every]),
        mcq_filtered=_mean([float(sample.multiple_choice) for sample in filtered]),
        initial_reward_converted=_mean([sample.initial_reward or 0.0 for sample in judged]),
        initial_reward_filtered=_mean([sample.initial_reward or 0.0 for sample in filtered]),
    )


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
