"""What was said of the captions of one training step, as rows of the table `caption_grades`."""

from collections.abc import Iterator, Sequence
from typing import Any

from rubricworks.adapters.captions import CaptionRewards
from rubricworks.runtime.call_table import Row
from rubricworks.stages.training.policy_training import Said


def caption_grades(rewards: CaptionRewards) -> Said:
    """Kept of a training on these rewards."""
    return Said(
        "caption_grades",
        lambda step: _rows(step, rewards),
        lambda: sum(_assertions(graded.assertions) for graded in rewards.graded),
    )


def _rows(step: Any, rewards: CaptionRewards) -> Iterator[Row]:
    said = zip(rewards.graded, rewards.measured, rewards.gated, step.advantages, strict=False)
    for graded, lengths, gated, advantage in said:
        scores = graded.scores
        yield {
            "step": step.step,
            "sample_id": graded.sample_id,
            "response": graded.caption,
            "judge": graded.judge,
            "graded": graded.model_dump_json(),
            **dict(zip(_REWARDS, scores or [None] * len(_REWARDS), strict=True)),
            "gated": gated,
            "tokens": lengths.caption,
            "reference_tokens": lengths.reference,
            "advantage": advantage,
        }


_REWARDS = ("precision", "recall", "linguistic")


def _assertions(assertions: Any) -> int:
    if assertions is None:
        return 0
    lists: Sequence[Any] = (assertions.synthetic_features, assertions.gt_features)
    return sum(len(features.atomic_assertions) for features in lists)
