"""Train a policy: the section `policy:` of a recipe as a stage (`rubricworks.policy`).

Every policy training of a pipeline is an instance of this stage, with its own id and its own kind of `Config`.
"""

from rubricworks.policy.policy import AnswerPolicy, CaptionPolicy, ImagePolicy, Policy
from rubricworks.runtime.job import Job
from rubricworks.stages.synthesis.synthesize_rubrics import Config as RubricWriting


class CaptionConfig(CaptionPolicy):
    """Configuration of the training of a captioner."""

    rubric_writing: RubricWriting | None = None
    """Settings of the stage that wrote the rubrics, for a reward that has them rewritten."""


AnswerConfig = AnswerPolicy
ImageConfig = ImagePolicy


def run(config: Policy, job: Job) -> None:
    config.train(job, getattr(config, "rubric_writing", None))
