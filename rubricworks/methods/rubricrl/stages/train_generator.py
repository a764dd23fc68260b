"""Train an image generator on the rubrics of its prompts (RubricRL, section 3.3 and appendix 0.A.4).

An autoregressive generator is trained by GRPO, a flow-matching one by DiffusionNFT.

Peers train the same generator: scores of endpoints in place of the rubric's reward, `method: sft` on captioned
pictures, and `method: best_of_n` on the best of its own images.
"""

import hashlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rubricworks.adapters.image_scores import ImageScoreReward
from rubricworks.adapters.trl import RubricReward
from rubricworks.data.tables import read_samples
from rubricworks.errors import UserError
from rubricworks.grading import CallPer, Combine, Grader
from rubricworks.grading.images.prompts import Credits
from rubricworks.grading.images.scores import ScoreEndpoint
from rubricworks.grading.images.text_reading import RapidOcr, TextReader, open_text_reader
from rubricworks.llm import ImageEndpoint
from rubricworks.methods.rubricrl.held_out_probe import HeldOutProbe
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job, model_dir
from rubricworks.stages.synthesis.rubric_gate import AuditGate, AuditOption, audit_before_training, drawn_entries
from rubricworks.stages.training.policy_training import DeadLetters, refill_criterion, rubric_texts, train
from rubricworks.stages.training.step_tables import scorecard_table
from rubricworks.training.config import PolicyConfig, SftConfig
from rubricworks.training.generators.config import DiffusionOptions
from rubricworks.training.processes import is_main

AUDIT_IMAGES = 4
"""Images of each prompt that its rubric is tried on."""
_AUDIT_BATCH = 16

if TYPE_CHECKING:
    from rubricworks.training.policy.run import PolicyResult


class EndpointReward(BaseModel):
    """Scores of endpoints in place of the rubric reward, as the papers' peers reward (`grading.images.scores`)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    endpoints: tuple[ScoreEndpoint, ...] = Field(min_length=1)
    """One, or several whose weighted mean is the reward; the weights are the same for every prompt."""


class Config(StageConfig, PolicyConfig):
    judge: ImageEndpoint
    """Grades the images; it sees the prompt, the image and the criteria."""
    more_judges: tuple[ImageEndpoint, ...] = ()
    """Further judges that grade every image; `combine` merges their credits."""
    combine: Combine = "majority"
    call_per: CallPer = "criterion"
    """One judge call per criterion, as in the paper, or one per image with all of them."""
    credits: Credits = "binary"
    """1 or 0 for a criterion, as in the paper, or a number between."""
    text_reader: RapidOcr | ImageEndpoint | None = None
    """Reader of the text in images, `rapidocr` or a model: it decides the criteria of the key `ocr_alignment` that
    quote text, by comparison, and the alarm watches the share of pixels that text covers."""
    mask_text: bool = False
    """Blank the text that the reader finds, but for quoted one, before the judge sees an image."""
    reward: EndpointReward | None = None
    """Reward by scoring endpoints; by default the rubric reward. The judge is then not asked."""
    audit: AuditOption | None = None
    """Audit of the rubrics by images of the generator before its training, `warn` or `refuse`, by the judges; none by
    default, and none where no judge rewards."""
    probe: ImageEndpoint | None = None
    """Judge of another family that grades images of held-out prompts during training, for the alarm."""
    probe_samples: int = Field(default=32, ge=1)
    guidance: float = Field(default=1.0, ge=0)
    """Classifier-free guidance of the rollouts; 1 is none, as in the paper. FLUX reads it as an input."""
    diffusion: DiffusionOptions | None = None
    """DiffusionNFT's options, for a flow-matching generator."""

    method: Literal["rl", "sft", "best_of_n"] = "rl"
    """`sft` trains on captioned pictures instead. `best_of_n` draws `group_size` images of each prompt and trains on
    the `selection.keep` best of them."""
    sft: SftConfig = SftConfig()
    """Training options for the methods `sft` and `best_of_n`."""
    pictures: str | None = None
    """Captioned pictures for `method: sft`: Parquet with `image` and `caption`."""

    @model_validator(mode="after")
    def _for_images(self) -> "Config":
        if self.refresh_every:
            raise ValueError("refresh_every is for captions; leave it at 0")
        if bool(self.probe_every) != (self.probe is not None):
            raise ValueError("the held-out judge (probe) grades every probe_every steps: give both, or neither")
        if self.method == "sft" and self.pictures is None:
            raise ValueError("method sft trains on captioned pictures; give pictures")
        if self.method == "best_of_n" and self.selection is None:
            raise ValueError("method best_of_n trains on the best images of a prompt; give selection.keep")
        if self.sft.lora is not None:
            raise ValueError("sft.lora is for models that write text; the supervised peers train all weights")
        if self.mask_text and self.text_reader is None:
            raise ValueError("mask_text needs a text_reader, which finds the text to blank")
        return self

    @property
    def supervised(self) -> SftConfig:
        """Training options with the stage's seed."""
        return self.sft.model_copy(update={"seed": self.seed})


def run(config: Config, job: Job) -> None:
    if config.method == "sft":
        from rubricworks.methods.rubricrl.supervised_peers import train_on_pictures

        settings = config.model_dump(mode="json")
        train_on_pictures(job, str(config.pictures), config.supervised, settings, config.guidance)
        return
    rubrics = rubric_texts(job)
    samples = [
        {"sample_id": sample.sample_id, "prompt": sample.prompt, "rubric": rubrics[sample.sample_id]}
        for sample in read_samples(job.inputs["samples"], "train")
        if sample.sample_id in rubrics
    ]
    if not samples:
        raise UserError(
            f"none of the prompts to train on has a rubric ({len(rubrics)} others have): nothing can be learnt; see "
            f"{job.inputs['rubrics'] / 'dead_letters'}"
        )
    letters = DeadLetters(job)
    scorecards = scorecard_table()
    reward: RubricReward | ImageScoreReward
    reader = open_text_reader(config.text_reader, partial(job.client, purpose="text"))
    if config.reward:
        judges = [job.client(endpoint, "reward") for endpoint in config.reward.endpoints]
        weights = [endpoint.weight for endpoint in config.reward.endpoints]
        reward = ImageScoreReward(list(zip(judges, weights, strict=True)), on_error=letters.add)
    else:
        judges = [job.client(judge, "judge") for judge in (config.judge, *config.more_judges)]
        grader = Grader(
            judges,
            call_per=config.call_per,
            combine=config.combine,
            credits=config.credits,
            text_reader=reader,
            mask_text=config.mask_text,
            on_error=letters.add,
        )
        reward = RubricReward(grader, criterion=refill_criterion(config, rubrics), sink=scorecards.add)
        if config.audit and is_main():
            _audit(config, config.audit, job, reader)
    options = PolicyConfig(**{name: getattr(config, name) for name in PolicyConfig.model_fields})
    if config.method == "best_of_n":
        from rubricworks.methods.rubricrl.supervised_peers import train_on_best

        settings = config.model_dump(mode="json")
        train_on_best(job, samples, reward, options, config.supervised, settings, config.guidance, scorecards, letters)
        return
    probe = None
    if config.probe:
        held_out_judge = job.client(config.probe, "probe")
        probe = HeldOutProbe(held_out_judge, config.probe_samples, job, rubrics, on_error=letters.add)
    train(
        config,
        options,
        job,
        samples,
        [reward],
        scorecards,
        judges=judges,
        letters=letters,
        trainer=partial(_train, reader, probe),
        guidance=config.guidance,
        diffusion=config.diffusion,
    )


def _audit(config: Config, gate: AuditGate, job: Job, reader: TextReader | None) -> None:
    """Audit drawn rubrics by images that the generator draws of their prompts, graded as in training."""
    from rubricworks.training.generators.image_generators import load_image_generator
    from rubricworks.training.generators.policy import image_responses

    entries = drawn_entries(gate, job.inputs["samples"], job.inputs["rubrics"], seed=config.seed, subject="answer")
    generator = load_image_generator(model_dir(job.inputs["model"]))
    prompts = [entry.prompt for entry in entries for _ in range(AUDIT_IMAGES)]
    drawn = generator.generate(
        prompts,
        temperature=config.temperature,
        guidance=config.guidance,
        seed=int(hashlib.sha256(f"audit {config.seed}".encode()).hexdigest()[:12], 16),
        batch_size=_AUDIT_BATCH,
    )
    images = [one.image for one in image_responses(drawn)]
    responses = {
        entry.sample_id: images[at * AUDIT_IMAGES : (at + 1) * AUDIT_IMAGES] for at, entry in enumerate(entries)
    }
    judges = gate.judges or (config.judge, *config.more_judges)
    grader = Grader(
        [job.client(judge, "audit") for judge in judges],
        call_per=config.call_per,
        combine=config.combine,
        credits=config.credits,
        text_reader=reader,
        mask_text=config.mask_text,
    )
    audit_before_training(
        gate.model_copy(update={"judges": judges}),
        job,
        entries,
        responses,
        grader=grader,
        option="policy.audit",
        remedy="mend them by rubric.writer or keys, or set policy.mask_text",
    )


def _train(
    reader: TextReader | None,
    probe: HeldOutProbe | None,
    model_dir: Path,
    *args: Any,
    diffusion: DiffusionOptions | None,
    **more: Any,
) -> "PolicyResult":
    from rubricworks.training.generators.image_generators import is_flow_generator
    from rubricworks.training.generators.image_statistics import DIVERSITY, IMAGE_STATISTICS, text_statistic

    text = () if reader is None else (text_statistic(reader.covered),)
    more |= {"statistics": (*IMAGE_STATISTICS, DIVERSITY, *text), "probe": probe}
    if is_flow_generator(model_dir):
        from rubricworks.training.generators.flow_matching.diffusion_policy import train_diffusion_policy

        return train_diffusion_policy(model_dir, *args, diffusion=diffusion, **more)
    from rubricworks.training.generators.policy import train_image_policy

    if diffusion is not None:
        raise UserError("policy.diffusion is for a flow-matching generator; leave it out for an autoregressive one")
    return train_image_policy(model_dir, *args, **more)
