"""Write one checklist per question: proposed by several teachers, merged by one model, checked by rules (RLR³, 4.1).

A sample has no row if too few teachers wrote a usable checklist, no essential criterion is left, or the reference
answer could not be examined. Failed calls become dead letters; dropped criteria are counted by reason.
"""

from collections import Counter, defaultdict

from pydantic import Field, field_validator, model_validator

from rubricworks.data.tables import Sample, count_samples, read_samples
from rubricworks.errors import UserError
from rubricworks.grading import FailedCall, Grader
from rubricworks.llm import ChatError, Endpoint, ImageEndpoint
from rubricworks.runtime.call_table import Answers, Row, ask_all, dead_letter, grading_dead_letters
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job
from rubricworks.synthesis.checklist_prompts import CHECKLIST_PROMPT_VERSION
from rubricworks.synthesis.checklist_writer import OTHER_TASKS, ChecklistWriter
from rubricworks.synthesis.verifier_guide import check_verifiers
from rubricworks.verifiers.verifier_table import VERIFIERS


class Config(StageConfig):
    teachers: tuple[ImageEndpoint, ...] = Field(min_length=1)
    """Strong vision-language models; each writes its own checklist."""
    merger: Endpoint | None = None
    """Merges their checklists; not needed with one teacher."""
    verifiers: dict[str, tuple[str, ...]] = Field(default={OTHER_TASKS: tuple(VERIFIERS)})
    """Task → verifiers that its checklists may use, `*` for all other tasks, which are shown all. Each is reserved for
    a kind of target (text and lists for what is read in the image, boxes and points for grounding), and its entry in
    the prompt says so; a task with none has references in words alone.
    """
    trust_answers: bool = True
    """The samples' answers are right: the writers and the examiner check criteria against them."""
    examiner: Endpoint | None = None
    """Grades each reference answer by its checklist (text alone); essential criteria that it fails are dropped."""
    min_proposals: int | None = Field(default=None, ge=1)
    """Usable proposals that a sample needs; by default more than half of the teachers."""
    shard_size: int = Field(default=64, ge=1)

    @field_validator("verifiers")
    @classmethod
    def _are_verifiers(cls, verifiers: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        try:
            for task, names in verifiers.items():
                check_verifiers(names, f"task {task!r}")
        except UserError as error:
            raise ValueError(str(error)) from error
        return verifiers

    @model_validator(mode="after")
    def _can_be_merged(self) -> "Config":
        if len(self.teachers) > 1 and self.merger is None:
            raise ValueError(
                f"{len(self.teachers)} teachers and no merger; name the model that merges their checklists"
            )
        if self.min_proposals is not None and self.min_proposals > len(self.teachers):
            raise ValueError(f"min_proposals is {self.min_proposals}, and there are {len(self.teachers)} teachers")
        return self


def run(config: Config, job: Job) -> None:
    teachers = [job.client(teacher, "checklist") for teacher in config.teachers]
    merger = job.client(config.merger, "merging") if config.merger else None
    examiner = job.client(config.examiner, "examining") if config.examiner else None
    unexamined: defaultdict[str, list[Row]] = defaultdict(list)
    dropped: Counter[str] = Counter()

    def add_letters(call: FailedCall) -> None:
        unexamined[call.sample_id] += grading_dead_letters(job, call)

    writer = ChecklistWriter(
        teachers,
        merger,
        verifiers=config.verifiers,
        trust_answers=config.trust_answers,
        examiner=Grader(examiner, on_error=add_letters) if examiner else None,
        min_proposals=config.min_proposals,
    )
    names = " + ".join(dict.fromkeys(teacher.model for teacher in config.teachers))

    async def write(sample: Sample) -> Answers:
        try:
            result = await writer.write(sample)
        except ChatError as error:
            assert config.merger is not None
            return Answers([], [dead_letter(sample.sample_id, job, f"merging by {config.merger.model}", error)])
        dropped.update(reason for _, reason in result.dropped)
        letters = [
            dead_letter(sample.sample_id, job, f"checklist by {model}", error) for model, error in result.failures
        ]
        letters += unexamined.pop(sample.sample_id, [])
        if result.rubric is None:
            return Answers([], letters)
        row = {
            "sample_id": sample.sample_id,
            "rubric": result.rubric.model_dump_json(),
            "writer": names,
            "prompt_version": CHECKLIST_PROMPT_VERSION,
            "coverage": "checklist",
            "candidates": len(result.proposals),
            "prompt_tokens": result.usage.prompt_tokens,
            "completion_tokens": result.usage.completion_tokens,
            "cost": result.usage.cost,
        }
        return Answers([row], letters)

    samples = job.inputs["samples"]
    ask_all(
        job,
        "rubrics",
        read_samples(samples, "train", "held_out"),
        write,
        total=count_samples(samples, "train", "held_out"),
        shard_size=config.shard_size,
        clients=[client for client in (*teachers, merger, examiner) if client is not None],
    )
    job.figures["dropped_criteria"] = dict(dropped)
