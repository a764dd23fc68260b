"""The calls that rubrics take: the committee describes each sample, and a writer makes a rubric of what it says."""

from rubricworks.plan.calls import CAPTION_TOKENS, CRITERIA_PER_RUBRIC, IMAGE_TOKENS, TOKENS_PER_CRITERION, Calls
from rubricworks.stages.caption_committee import Config as CommitteeConfig
from rubricworks.stages.caption_student import Config as StudentConfig
from rubricworks.stages.synthesize_rubrics import Config as SynthesisConfig


def rubric_calls(
    committee: CommitteeConfig,
    student: StudentConfig,
    rubric: SynthesisConfig,
    samples: int,
    *,
    describing: str = "caption_committee",
    writing: str = "synthesize_rubrics",
) -> list[Calls]:
    """Those of each teacher, and last the writer's.

    Args:
        describing, writing: the stages that make them.
    """
    count = samples * committee.captions_each
    asked = [
        Calls(describing, "caption", teacher, count, IMAGE_TOKENS, CAPTION_TOKENS) for teacher in committee.teachers
    ]
    candidates = len(committee.teachers) * committee.captions_each + student.captions_each
    read = IMAGE_TOKENS + 1_000 + candidates * CAPTION_TOKENS
    written = CRITERIA_PER_RUBRIC * 3 * TOKENS_PER_CRITERION
    return [*asked, Calls(writing, "rubric", rubric.writer, samples, read, written)]
