"""Supervised training of a captioner on captions: those of the images, or of a stronger model (RubiCap, section 4)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import ClassVar, Literal

from rubricworks.data.alarm import Alarm, write_alarm
from rubricworks.data.tables import read_rows, read_samples
from rubricworks.errors import UserError
from rubricworks.grading.assertions.texts import has_words
from rubricworks.llm import Endpoint, ImageEndpoint
from rubricworks.llm.image_tokens import image_tokens
from rubricworks.llm.usage import CAPTION_TOKENS, PlannedCalls
from rubricworks.policy.algorithms.algorithm import Algorithm, PolicyStage
from rubricworks.policy.references import training_references
from rubricworks.policy.rewards.reward import Reward, TrainingSize
from rubricworks.policy.step_tables import StepTables
from rubricworks.runtime.job import model_dir
from rubricworks.runtime.stage_below import main_runs_below
from rubricworks.stages.synthesis import caption_committee
from rubricworks.stages.training.step_listener import step_listener
from rubricworks.tracking import stage_run
from rubricworks.training.config import SftConfig
from rubricworks.training.model_card import Usage, only_prompt, write_card
from rubricworks.training.processes import is_main

Example = tuple[bytes, str, str]
"""Image, prompt and caption."""


class Sft(SftConfig, Algorithm):
    """Supervised training on captions."""

    rewards: ClassVar[Sequence[str]] = ()

    type: Literal["sft"]
    captioner: ImageEndpoint | None = None
    """Model whose captions are learnt. Captions of a committee's teacher are reused. By default the captions that came
    with the images.
    """

    def train(self, stage: PolicyStage) -> None:
        train_on_captions(stage, self.captions(stage), self)

    def captions(self, stage: PolicyStage) -> dict[str, tuple[str, ...]]:
        """sample_id → the captions of a training sample that the policy learns.

        If a run has rubrics, only samples with a rubric are learnt, as in its RL.

        Raises:
            UserError: there is none.
        """
        rubrics = stage.job.inputs.get("rubrics")
        with_rubric = {row["sample_id"] for row in read_rows(rubrics, columns=["sample_id"])} if rubrics else set()
        captions = self._all_captions(stage)
        if not with_rubric:
            return captions
        captions = {name: texts for name, texts in captions.items() if name in with_rubric}
        if not captions:
            raise UserError(f"none of the {len(with_rubric)} samples with a rubric has a caption to learn")
        return captions

    def _all_captions(self, stage: PolicyStage) -> dict[str, tuple[str, ...]]:
        job = stage.job
        if self.captioner is None:
            references = training_references(
                job, "to learn; give the images captions, or name a policy.algorithm.captioner"
            )
            return {name: (text,) for name, text in references.items()}
        model = self.captioner.model
        captions = captions_by(model, job.inputs["captions"]) if "captions" in job.inputs else {}
        if not captions:
            config = caption_committee.Config(teachers=(self.captioner,), seed=stage.config.seed)
            table = main_runs_below(caption_committee, config, job, {"samples": job.inputs["samples"]}, ("train",))
            captions = captions_by(model, table)
        if not captions:
            raise UserError(f"policy.algorithm.captioner: {model} captioned none of the samples; see its dead letters")
        return captions

    def estimate(
        self, reward: Reward | None, size: TrainingSize, captioners: Sequence[Endpoint] = ()
    ) -> Iterator[PlannedCalls]:
        if self.captioner and self.captioner.model not in [captioner.model for captioner in captioners]:
            yield PlannedCalls("caption", self.captioner, size.samples, image_tokens(self.captioner), CAPTION_TOKENS)

    def describe(self) -> str:
        captions = f"captions by {self.captioner.model}" if self.captioner else "the captions that came with the images"
        return f"The policy was trained on {captions} (SFT), without any reward."


def captions_by(captioner: str, table: Path) -> dict[str, tuple[str, ...]]:
    """sample_id → captions by a captioner in a table of captions."""
    captions: dict[str, tuple[str, ...]] = {}
    for row in read_rows(table, columns=["sample_id", "captioner", "caption"]):
        if row["captioner"] == captioner and has_words(row["caption"]):
            captions[row["sample_id"]] = (*captions.get(row["sample_id"], ()), row["caption"])
    return captions


def train_on_captions(stage: PolicyStage, captions: Mapping[str, Iterable[str]], sft: SftConfig) -> None:
    """Train the input model on captions of the training samples; its tables of rollouts and gradings are empty.

    Args:
        captions: sample_id → its captions; samples without any are left out.
    """
    from rubricworks.training.sft import train_sft

    job, settings = stage.job, stage.config.model_dump(mode="json")
    examples: list[Example] = [
        (sample.require_image("the policy captions it"), sample.prompt, caption)
        for sample in read_samples(job.inputs["samples"], "train")
        for caption in captions.get(sample.sample_id, ())
    ]
    tables = StepTables(job, every=1) if is_main() else nullcontext()
    with stage_run(job.run, job.stage) as log, tables:
        log.log_params(settings)
        train_sft(
            model_dir(job.inputs["model"]),
            examples,
            job.out,
            sft,
            seed=stage.config.seed,
            title="policy",
            on_log=step_listener(job, log),
        )
    if is_main():
        write_card(
            model_dir(job.out),
            Usage(only_prompt(prompt for _, prompt, _ in examples)),
            trained_by=job.stage,
            data=job.made_by["inputs"],
            config=settings,
        )
    write_alarm(job.out, Alarm(state="no_reward"))
    job.figures.update(examples=len(examples), steps=sft.steps_on(len(examples)), alarm=None)
