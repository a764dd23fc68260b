"""ROUGE-L reward: overlap with the caption that came with the image (RubiCap, section 4.1, NLP-metric RL)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from rubricworks.adapters.rows import completion_text
from rubricworks.llm.usage import PlannedCalls
from rubricworks.metrics.rouge import rouge_l
from rubricworks.policy.references import training_references
from rubricworks.policy.rewards.reward import PreparedReward, Reward, Training, TrainingSize
from rubricworks.policy.rubric_texts import compared_samples
from rubricworks.policy.step_tables import judgment_count


class RougeLReward(Reward):
    """ROUGE-L of a caption against its sample's reference."""

    type: Literal["rouge_l"]

    def build(self, training: Training) -> PreparedReward:
        references = training_references(training.job, "with which ROUGE-L compares; give the images captions")
        compared = compared_samples(training.job)
        rubrics = {sample_id: text for sample_id, text in compared.items() if sample_id in references}
        judgments = judgment_count()
        return PreparedReward(functions=[Overlap(references, judgments.add)], gradings=judgments, values=rubrics)

    def estimate(self, size: TrainingSize) -> Iterator[PlannedCalls]:
        return iter(())

    def describe(self) -> str:
        return "The reward is ROUGE-L against the caption that came with the image."


class Overlap:
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
