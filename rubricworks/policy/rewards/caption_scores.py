"""Caption scores: precision, recall and linguistic quality of a caption, three rewards (BalCapRL, section 2).

A sample's reference is its first caption; samples without one are dropped.
"""

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rubricworks.adapters.captions import CaptionGrade, CaptionRewards, LengthPenalty
from rubricworks.evaluation.scorers.b_capscore import assertion_calls
from rubricworks.grading import AssertionGrader, Pointability
from rubricworks.grading.assertions.texts import MIN_OVERLAP
from rubricworks.llm import Endpoint, ImageEndpoint, SeesImages
from rubricworks.llm.usage import PlannedCalls
from rubricworks.policy.references import training_references
from rubricworks.policy.rewards.reward import PreparedReward, Reward, Training, TrainingSize
from rubricworks.policy.step_tables import GradingTable
from rubricworks.runtime.call_table import Row
from rubricworks.runtime.job import Job, model_dir

GRADES = "caption_grades"
"""Table of the gradings, one row per caption of a training step."""
_TESTS: dict[Pointability, str] = {
    "strict": "true of the image and pointable",
    "evidence": "true of the image and justified by what can be seen",
    "off": "true of the image, pointable or not",
}
_REWARDS = ("precision", "recall", "linguistic")


class _Options(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Weights(_Options):
    """Weights of the rewards; 0 turns a reward off."""

    precision: float = Field(0.1, ge=0)
    """Weight of the share of correct statements."""
    recall: float = Field(0.3, ge=0)
    """Weight of the share of exam questions answered."""
    linguistic: float = Field(0.3, ge=0)
    """Weight of the linguistic rating."""

    @model_validator(mode="after")
    def _some_count(self) -> "Weights":
        if not any(self.in_order):
            raise ValueError("all three weights are 0; nothing could be learnt")
        return self

    @property
    def in_order(self) -> tuple[float, float, float]:
        return self.precision, self.recall, self.linguistic


class _LengthRange(_Options):
    lower: float = Field(0.5, ge=0)
    """Shortest caption, in tokens per token of the reference."""
    upper: float = Field(2.0, gt=0)
    """Bounds of the range, in tokens of the caption per token of the reference."""

    @model_validator(mode="after")
    def _is_a_range(self) -> "_LengthRange":
        if self.lower > self.upper:
            raise ValueError(f"lower is {self.lower} and upper {self.upper}; give lower <= upper")
        return self


class LengthGate(_LengthRange):
    """The linguistic reward is 0 for a caption outside the range."""

    type: Literal["gate"]


class LinearLength(_LengthRange):
    """The distance to the range is subtracted from the advantage."""

    type: Literal["linear"]
    scale: float = Field(1.0, ge=0)
    """Penalty per unit of distance. The paper does not state its value."""


class CaptionScoresReward(Reward):
    """Precision, recall and linguistic quality, by the assertions of a caption and of its reference."""

    type: Literal["caption_scores"]
    judge: Annotated[Endpoint, SeesImages(lambda reward: reward.verifier is None)]
    """Lists and marks assertions, and rates the writing; without a verifier it sees the image."""
    verifier: ImageEndpoint | None = None
    """Checks the assertions against the image; the judge then sees no image."""
    pointability: Pointability = "strict"
    """Test that an assertion must pass in addition to being true; `off` is the paper's ablation."""
    min_overlap: float = Field(MIN_OVERLAP, ge=0, le=1)
    """Share of an assertion's content words that its text must contain, or else the assertion is dropped; 0 drops none,
    as in the paper (`grading.assertions.texts`).
    """
    weights: Weights = Weights()
    """Weight of each score (BalCapRL, equation 2.5)."""
    length: Annotated[LengthGate | LinearLength, Field(discriminator="type")] | None = LengthGate(type="gate")
    """Control of a caption's length relative to its reference; null = none."""

    def build(self, training: Training) -> PreparedReward:
        job = training.job
        references = training_references(
            job,
            "by which recall and length are measured; give the images captions, or have a model write them (stage "
            "recap)",
        )
        judge = job.client(self.judge, "judge")
        verifier = job.client(self.verifier, "verification") if self.verifier else None
        tokens = _policy_tokens(job)
        grades = GradingTable(GRADES, _grade_row, _count_assertions)
        length = self.length
        rewards = CaptionRewards(
            AssertionGrader(
                judge,
                verifier=verifier,
                pointability=self.pointability,
                min_overlap=self.min_overlap,
                on_error=training.letters.add,
            ),
            count_tokens=tokens.count,
            end_tokens=tokens.marks,
            gate=(length.lower, length.upper) if isinstance(length, LengthGate) else None,
            sink=grades.add,
        )
        penalty = None
        if isinstance(length, LinearLength):
            penalty = LengthPenalty(rewards.lengths, lower=length.lower, upper=length.upper, scale=length.scale)
        return PreparedReward(
            functions=rewards.functions,
            gradings=grades,
            values=references,
            column="reference",
            judges=[client for client in (judge, verifier) if client],
            start=rewards.start,
            weights=self.weights.in_order,
            penalty=penalty,
        )

    def estimate(self, size: TrainingSize) -> Iterator[PlannedCalls]:
        return assertion_calls(self.judge, self.verifier, size.rollouts)

    def describe(self) -> str:
        verified = f"; {self.verifier.model}, which sees the image, verifies the claims" if self.verifier else ""
        weights = ", ".join(f"{name} {weight:g}" for name, weight in zip(_REWARDS, self.weights.in_order, strict=True))
        return (
            f"{self.judge.model} lists what caption and reference claim and rates the caption's language{verified}. "
            f"Precision is the share of the caption's claims that are {_TESTS[self.pointability]}; recall the share of "
            "the reference's claims that the caption covers; linguistic the mean of clarity, fluency and coherency, "
            f"brought to 0 to 1; {self._length_rule()}. Weights: {weights}."
        )

    def _length_rule(self) -> str:
        match self.length:
            case LengthGate(lower=lower, upper=upper):
                return (
                    f"linguistic is 0 unless the caption has {lower:g} to {upper:g} times the tokens of its reference"
                )
            case LinearLength(lower=lower, upper=upper):
                return f"the advantage falls linearly outside {lower:g} to {upper:g} times the tokens of the reference"
        return "nothing controls the length"


def _grade_row(step: Any, at: int, grade: CaptionGrade) -> Row:
    graded = grade.graded
    return {
        "step": step.step,
        "sample_id": graded.sample_id,
        "response": graded.caption,
        "judge": graded.judge,
        "graded": graded.model_dump_json(),
        **dict(zip(_REWARDS, graded.scores or [None] * len(_REWARDS), strict=True)),
        "gated": grade.gate_shut,
        "tokens": grade.lengths.caption,
        "reference_tokens": grade.lengths.reference,
        "advantage": step.advantages[at],
    }


def _count_assertions(grade: CaptionGrade) -> int:
    assertions = grade.graded.assertions
    if assertions is None:
        return 0
    return len(assertions.synthetic_features.atomic_assertions) + len(assertions.gt_features.atomic_assertions)


class _PolicyTokens(NamedTuple):
    count: Callable[[str], int]
    marks: frozenset[int]
    """Special tokens, which are not part of the text: end, padding and marks."""


def _policy_tokens(job: Job) -> _PolicyTokens:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_dir(job.inputs["model"]))
    marks = frozenset(tokenizer.all_special_ids)
    return _PolicyTokens(lambda text: len(tokenizer(text, add_special_tokens=False)["input_ids"]), marks)
