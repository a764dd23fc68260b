"""Rewards of the peers that are trained by RL: ROUGE-L, a Likert rating, CapRL's exams."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rubricworks.adapters.rows import NO_IMAGE, batch_samples, completion_text
from rubricworks.data.tables import Sample
from rubricworks.evaluation.scorers.caption_qa import ExamTaker, read_exams
from rubricworks.grading import FailedCall
from rubricworks.grading.likert import POINTS, rate_caption
from rubricworks.llm import ChatClient, ChatError
from rubricworks.methods.rubicap.peers.config import ExamPeer, LikertPeer, OverlapPeer
from rubricworks.metrics.rouge import rouge_l
from rubricworks.rubrics import Response
from rubricworks.runtime.job import Job
from rubricworks.runtime.stage_below import main_runs_below
from rubricworks.stages.synthesis import write_exams
from rubricworks.stages.training.exam_reward import ExamReward
from rubricworks.stages.training.policy_training import DeadLetters
from rubricworks.stages.training.references import training_references

RewardedPeer = OverlapPeer | LikertPeer | ExamPeer


class PeerReward(NamedTuple):
    """A peer's reward with what it reads."""

    function: Callable[..., Any]
    """Async TRL reward function."""
    samples: frozenset[str] | None
    """Samples that it can reward; None if it can reward all."""
    judges: tuple[ChatClient, ...]


def peer_reward(
    peer: RewardedPeer, job: Job, letters: DeadLetters, sink: Callable[[list[int]], object], *, seed: int
) -> PeerReward:
    """Build a peer's reward.

    Args:
        sink: called with the number of judgments per caption of a batch.
    Raises:
        UserError: no training sample has the reference that the reward compares with.
    """
    if isinstance(peer, ExamPeer):
        config = write_exams.Config(writer=peer.writer, splits=("train",), seed=seed)
        exams = read_exams(main_runs_below(write_exams, config, job, {"samples": job.inputs["samples"]}))
        taker = job.client(peer.taker, "exam")
        reward = ExamReward(ExamTaker(taker, seed=seed), exams, on_error=letters.add, sink=sink)
        return PeerReward(reward, frozenset(exams), (taker,))
    if isinstance(peer, OverlapPeer):
        references = training_references(job, "with which ROUGE-L compares; give the images captions")
        return PeerReward(OverlapReward(references, sink), frozenset(references), ())
    judge = job.client(peer.judge, "judge")
    if peer.kind == "direct_likert":
        return PeerReward(LikertReward(judge, None, letters.add, sink), None, (judge,))
    references = training_references(job, "which the judge compares with; give the images captions")
    return PeerReward(LikertReward(judge, references, letters.add, sink), frozenset(references), (judge,))


class OverlapReward:
    """Async reward function: ROUGE-L of the caption against its sample's reference."""

    __name__ = "rouge_l"

    def __init__(self, references: Mapping[str, str], sink: Callable[[list[int]], object]) -> None:
        self.references, self._sink = references, sink

    async def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], sample_id: Sequence[str], **columns: Any
    ) -> list[float]:
        captions = map(completion_text, completions)
        rewards = [rouge_l(text, [self.references[name]]) for text, name in zip(captions, sample_id, strict=True)]
        self._sink([1] * len(rewards))
        return rewards


class LikertReward:
    """Async reward function: the judge's rating of the caption as a share of ten; None if it gave none."""

    __name__ = "likert"

    def __init__(
        self,
        judge: ChatClient,
        references: Mapping[str, str] | None,
        on_error: Callable[[FailedCall], None],
        sink: Callable[[list[int]], object],
    ) -> None:
        """
        Args:
            references: sample_id → caption that the rating is relative to; None asks without any.
        """
        self.judge, self.references, self._on_error, self._sink = judge, references, on_error, sink

    async def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
        samples = batch_samples(prompts, columns)
        rewards = await asyncio.gather(*map(self._rate, samples, map(completion_text, completions)))
        self._sink([int(reward is not None) for reward in rewards])
        return rewards

    async def _rate(self, sample: Sample, caption: str) -> float | None:
        image = sample.image or NO_IMAGE
        reference = None if self.references is None else self.references[sample.sample_id]
        try:
            return await rate_caption(self.judge, image, caption, reference) / POINTS
        except ChatError as error:
            model = self.judge.endpoint.model
            self._on_error(FailedCall(sample.sample_id, Response.of(caption), model, ("rating",), error))
            return None
