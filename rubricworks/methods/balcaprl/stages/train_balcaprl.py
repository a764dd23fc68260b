"""Train the policy with BalCapRL's rewards: precision, recall and linguistic quality, each normalised separately.

A sample's reference is its first caption (stage `recap` has a stronger model write it); samples without one are
dropped. The defaults are the paper's (appendix A.1). Three peers train on the same samples: `method: sft` on the
references, `reward: questions` like CapRL, on the input `exams`, and `reward: rubrics` like RubiCap, on `rubrics`.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rubricworks.adapters.captions import CaptionGrade, CaptionRewards, LengthPenalty
from rubricworks.adapters.trl import RubricReward
from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.evaluation.scorers.caption_qa import ExamTaker, read_exams
from rubricworks.grading import AssertionGrader, CallPer, Grader, Pointability
from rubricworks.grading.assertions.texts import MIN_OVERLAP
from rubricworks.llm import Endpoint, ImageEndpoint, SeesImages
from rubricworks.runtime.call_table import Row
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job, model_dir
from rubricworks.stages.training.caption_tuning import train_on_captions
from rubricworks.stages.training.exam_reward import ExamReward
from rubricworks.stages.training.policy_training import (
    DeadLetters,
    graded_dataset,
    refill_criterion,
    rubric_texts,
    train,
    training_dataset,
)
from rubricworks.stages.training.references import training_references
from rubricworks.stages.training.step_tables import GradingTable, scorecard_table
from rubricworks.training.config import PolicyConfig, SftConfig

_GRADES = "caption_grades"
"""Table of the gradings, one row per caption of a training step."""
_REWARDS = ("precision", "recall", "linguistic")


class Weights(BaseModel):
    """Weights of the rewards; 0 turns a reward off."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    precision: float = Field(0.1, ge=0)
    recall: float = Field(0.3, ge=0)
    linguistic: float = Field(0.3, ge=0)

    @model_validator(mode="after")
    def _some_count(self) -> "Weights":
        if not any(self.in_order):
            raise ValueError("all three weights are 0; nothing could be learnt")
        return self

    @property
    def in_order(self) -> tuple[float, float, float]:
        return self.precision, self.recall, self.linguistic


class LengthControl(BaseModel):
    """Control of a caption's length relative to its reference."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    control: Literal["gate", "linear", "none"] = "gate"
    """`gate`: the linguistic reward is 0 outside the range; `linear`: the distance is subtracted from the advantage."""
    lower: float = Field(0.5, ge=0)
    upper: float = Field(2.0, gt=0)
    """Bounds of the range, in tokens of the caption per token of the reference."""
    scale: float = Field(1.0, ge=0)
    """Penalty per unit of distance, for `linear`. The paper does not state its value."""

    @model_validator(mode="after")
    def _is_a_range(self) -> "LengthControl":
        if self.lower > self.upper:
            raise ValueError(f"lower is {self.lower} and upper {self.upper}; give lower <= upper")
        return self


class Config(StageConfig, PolicyConfig):
    judge: Annotated[Endpoint, SeesImages(lambda config: config.reward == "balanced" and config.verifier is None)]
    """Lists and marks assertions, and rates the writing; without a verifier it sees the image. With `reward: questions`
    it is the text model that takes the exams; with `rubrics` it grades by them. Both times it sees no image."""
    verifier: ImageEndpoint | None = None
    """Checks the assertions against the image; the judge then sees no image."""
    pointability: Pointability = "strict"
    """Test that an assertion must pass in addition to being true; `off` is the paper's ablation."""
    min_overlap: float = Field(MIN_OVERLAP, ge=0, le=1)
    """Share of an assertion's content words that its text must contain, or else the assertion is dropped; 0 drops none,
    as in the paper (`grading.assertions.texts`)."""
    weights: Weights = Weights()
    length: LengthControl = LengthControl()
    method: Literal["rl", "sft"] = "rl"
    """`sft` trains on the references of the same samples instead."""
    reward: Literal["balanced", "questions", "rubrics"] = "balanced"
    """`questions` is CapRL's: right answers from the caption alone; `rubrics` is RubiCap's: credit by a rubric. Both
    are one number, so objective, weights and length do not apply to them."""
    call_per: CallPer = "response"
    """One judge call per response, with all its criteria, or one per criterion (RubiCap's paper), for `rubrics`."""
    sft: SftConfig = SftConfig()
    """Training options for `method: sft`."""
    objective: Literal["grpo", "c-gdpo"] = "c-gdpo"
    """`grpo` sums the rewards before normalisation (the paper's ablation)."""
    steps: int | None = Field(None, ge=1)
    epochs: float | None = Field(1.0, gt=0)
    prompts_per_step: int = Field(256, ge=1)
    max_new_tokens: int = Field(1_024, ge=1)
    learning_rate: float = Field(5e-6, gt=0)
    lr_schedule: Literal["constant", "linear", "cosine"] = "cosine"
    delta: float | None = Field(3.0, gt=1)

    @model_validator(mode="after")
    def _weights_are_set_once(self) -> "Config":
        if self.reward_weights is not None:
            raise ValueError("reward_weights is what `weights` says; leave it out")
        return self

    def policy_config(self) -> PolicyConfig:
        """Configuration of the trainer."""
        values = {name: getattr(self, name) for name in PolicyConfig.model_fields}
        balanced = {"objective": self.objective, "reward_weights": self.weights.in_order}
        peer = {"objective": "grpo", "reward_weights": None}
        return PolicyConfig(**values | (balanced if self.reward == "balanced" else peer))


def run(config: Config, job: Job) -> None:
    if config.method == "sft":
        _train_on_references(config, job)
    elif config.reward == "questions":
        _train_on_exams(config, job)
    elif config.reward == "rubrics":
        _train_on_rubrics(config, job)
    else:
        _train_on_grades(config, job)


def _train_on_grades(config: Config, job: Job) -> None:
    dataset = graded_dataset(job, "reference", _references(job))
    judge = job.client(config.judge, "judge")
    verifier = job.client(config.verifier, "verification") if config.verifier else None
    letters = DeadLetters(job)
    tokens = _policy_tokens(job)
    bounds = config.length.lower, config.length.upper
    grades = GradingTable(_GRADES, _grade_row, _count_assertions)
    rewards = CaptionRewards(
        AssertionGrader(
            judge,
            verifier=verifier,
            pointability=config.pointability,
            min_overlap=config.min_overlap,
            on_error=letters.add,
        ),
        count_tokens=tokens.count,
        end_tokens=tokens.marks,
        gate=bounds if config.length.control == "gate" else None,
        sink=grades.add,
    )
    penalty = None
    if config.length.control == "linear":
        penalty = LengthPenalty(rewards.lengths, lower=bounds[0], upper=bounds[1], scale=config.length.scale)
    train(
        config,
        config.policy_config(),
        job,
        dataset,
        rewards.functions,
        grades,
        judges=[client for client in (judge, verifier) if client],
        letters=letters,
        reads="reference",
        penalty=penalty,
    )


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


def _train_on_exams(config: Config, job: Job) -> None:
    exams = read_exams(job.inputs["exams"]) if "exams" in job.inputs else {}
    rows = read_rows(job.inputs["samples"], columns=["sample_id", "split"])
    trained = {row["sample_id"] for row in rows if row["split"] == "train"}
    values = {name: exam.model_dump_json() for name, exam in exams.items() if name in trained}
    if not values:
        raise UserError("none of the samples to train on has an exam; run write_exams with splits that include train")
    job.figures["without_exam"] = len(trained) - len(values)
    taker = job.client(config.judge, "exam")
    letters = DeadLetters(job)
    # The count of answered questions is only for the progress line; no table stores it.
    answers: GradingTable[int] = GradingTable(_GRADES, None, int)
    reward = ExamReward(ExamTaker(taker, seed=config.seed), exams, on_error=letters.add, sink=answers.add)
    dataset = graded_dataset(job, "exam", values)
    train(
        config, config.policy_config(), job, dataset, [reward], answers, judges=[taker], letters=letters, reads="exam"
    )


def _train_on_rubrics(config: Config, job: Job) -> None:
    rubrics = rubric_texts(job) if "rubrics" in job.inputs else {}
    if not rubrics:
        raise UserError("there are no rubrics to train on; run peer_rubrics with a committee and a rubric writer")
    dataset = training_dataset(job, rubrics)
    judge = job.client(config.judge, "judge")
    letters = DeadLetters(job)
    scorecards = scorecard_table()
    reward = RubricReward(
        Grader(judge, call_per=config.call_per, on_error=letters.add),
        criterion=refill_criterion(config, rubrics),
        sink=scorecards.add,
    )
    train(config, config.policy_config(), job, dataset, [reward], scorecards, judges=[judge], letters=letters)


def _train_on_references(config: Config, job: Job) -> None:
    captions = {name: (text,) for name, text in _references(job).items()}
    train_on_captions(config, job, captions, config.sft, seed=config.seed, gradings=_GRADES)


def _references(job: Job) -> dict[str, str]:
    return training_references(
        job,
        "by which recall and length are measured; give the images captions, or have a model write them (stage recap)",
    )


class _PolicyTokens(NamedTuple):
    count: Callable[[str], int]
    marks: frozenset[int]
    """Special tokens, which are not part of the text: end, padding and marks."""


def _policy_tokens(job: Job) -> _PolicyTokens:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_dir(job.inputs["model"]))
    marks = frozenset(tokenizer.all_special_ids)
    return _PolicyTokens(lambda text: len(tokenizer(text, add_special_tokens=False)["input_ids"]), marks)
