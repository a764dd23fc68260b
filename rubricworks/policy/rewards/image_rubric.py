"""Rubric reward for a generator's images: the credits of the prompt's criteria (RubricRL, section 3.3)."""

import hashlib
from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import model_validator

from rubricworks.adapters import trl
from rubricworks.grading import CallPer, Grader
from rubricworks.grading.images.prompts import Credits
from rubricworks.grading.images.text_reading import RapidOcr, TextReader, open_text_reader
from rubricworks.llm import ImageEndpoint, SeesImages
from rubricworks.llm.image_tokens import image_tokens
from rubricworks.llm.usage import TOKENS_PER_CRITERION, PlannedCalls
from rubricworks.policy.judges import PanelOrOne, combination, describe_judge, graders
from rubricworks.policy.rewards.reward import PreparedReward, Reward, Training, TrainingSize
from rubricworks.policy.rubric_texts import refill_criterion, rubric_texts
from rubricworks.policy.step_tables import scorecard_table
from rubricworks.runtime.job import model_dir
from rubricworks.stages.synthesis.rubric_gate import AuditGate, AuditOption, audit_before_training, drawn_entries
from rubricworks.training.processes import is_main

AUDIT_IMAGES = 4
"""Images of each prompt that its rubric is tried on."""
AUDIT_PROBES = 7
"""Gradings of one rubric by changed images."""
_AUDIT_BATCH = 16
_INSTRUCTIONS = 450
"""Tokens of the fixed text of a grading prompt."""
_PROMPT = 60
"""Tokens of the prompt that an image was drawn from."""


class ImageRubricReward(Reward):
    """Credits of a rubric's criteria for an image, weighted."""

    type: Literal["rubric"]
    judge: Annotated[PanelOrOne, SeesImages()]
    """Grades the images; it sees the prompt, the image and the criteria."""
    call_per: CallPer = "criterion"
    """One judge call per criterion, as in the paper, or one per image with all of them."""
    credits: Credits = "binary"
    """1 or 0 for a criterion, as in the paper, or a number between."""
    text_reader: RapidOcr | ImageEndpoint | None = None
    """Reader of the text in images, `rapidocr` or a model: it decides the criteria of the key `ocr_alignment` that
    quote text, by comparison, and the alarm watches the share of pixels that text covers.
    """
    mask_text: bool = False
    """Blank the text that the reader finds, except quoted text, before the judge sees an image."""
    audit: AuditOption | None = None
    """Audit of the rubrics by images of the generator before its training, `warn` or `refuse`, by the judges; none by
    default.
    """

    @model_validator(mode="after")
    def _reader_finds_the_text(self) -> "ImageRubricReward":
        if self.mask_text and self.text_reader is None:
            raise ValueError("mask_text needs a text_reader, which finds the text to blank")
        return self

    def build(self, training: Training) -> PreparedReward:
        from rubricworks.training.generators.image_statistics import text_statistic

        job, rubrics = training.job, rubric_texts(training.job)
        scorecards, reader = scorecard_table(), open_text_reader(self.text_reader, partial(job.client, purpose="text"))
        judges = [job.client(endpoint, "judge") for endpoint in graders(self.judge)]
        options = self._grading(reader)
        reward = trl.RubricReward(
            Grader(judges, **options, on_error=training.letters.add),
            criterion=refill_criterion(training.refill, rubrics),
            sink=scorecards.add,
        )
        if self.audit and is_main():
            self._audit(self.audit, training, options)
        # The reader that graded an image knows its share of text.
        statistics = [text_statistic(reader.covered)] if reader else []
        return PreparedReward([reward], scorecards, rubrics, judges=judges, statistics=statistics)

    def _grading(self, reader: TextReader | None) -> dict[str, Any]:
        return {
            "call_per": self.call_per,
            "combine": combination(self.judge),
            "credits": self.credits,
            "text_reader": reader,
            "mask_text": self.mask_text,
        }

    def _audit(self, gate: AuditGate, training: Training, options: dict[str, Any]) -> None:
        """Audit drawn rubrics by images that the generator draws of their prompts, graded as in training."""
        from rubricworks.training.generators.image_generators import load_image_generator
        from rubricworks.training.generators.policy import image_responses

        job, rollouts = training.job, training.rollouts
        entries = drawn_entries(
            gate, job.inputs["samples"], job.inputs["rubrics"], seed=training.seed, subject="answer"
        )
        generator = load_image_generator(model_dir(job.inputs["model"]), getattr(rollouts, "sampling", None))
        drawn = generator.generate(
            [entry.prompt for entry in entries for _ in range(AUDIT_IMAGES)],
            temperature=getattr(rollouts, "temperature", 1.0),
            guidance=getattr(rollouts, "guidance", 1.0),
            seed=int(hashlib.sha256(f"audit {training.seed}".encode()).hexdigest()[:12], 16),
            batch_size=_AUDIT_BATCH,
        )
        images = [response.image for response in image_responses(drawn)]
        responses = {
            entry.sample_id: images[at * AUDIT_IMAGES : (at + 1) * AUDIT_IMAGES] for at, entry in enumerate(entries)
        }
        judges = gate.judges or graders(self.judge)
        audit_before_training(
            gate.model_copy(update={"judges": judges}),
            job,
            entries,
            responses,
            grader=Grader([job.client(endpoint, "audit") for endpoint in judges], **options),
            option="policy.reward.audit",
            remedy="mend them by rubric.writer or keys, or set policy.reward.mask_text",
        )

    def estimate(self, size: TrainingSize) -> Iterator[PlannedCalls]:
        by_criterion = self.call_per == "criterion"
        each, criteria = (size.criteria, 1) if by_criterion else (1, size.criteria)
        text = _INSTRUCTIONS + _PROMPT + criteria * TOKENS_PER_CRITERION
        tokens_out = criteria * TOKENS_PER_CRITERION
        judges = graders(self.judge)
        for judge in judges:
            yield PlannedCalls("judge", judge, size.rollouts * each, image_tokens(judge) + text, tokens_out)
        if gate := self.audit:
            probes = min(gate.sample, size.samples) * (AUDIT_PROBES + AUDIT_IMAGES) * each
            for judge in gate.judges or judges:
                yield PlannedCalls("audit", judge, probes, image_tokens(judge) + text, tokens_out)

    def describe(self) -> str:
        return (
            f"The reward is the weight of the rubric's criteria that an image meets; {describe_judge(self.judge)} "
            f"grades them, one call per {self.call_per}."
        )
