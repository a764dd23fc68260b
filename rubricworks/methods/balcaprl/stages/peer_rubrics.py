"""Write RubiCap's rubrics for BalCapRL's training samples, so that RubiCap's reward can be a peer.

Three stages of RubiCap's pipeline run one after the other: committee captions and student captions are folders of the
output, which is the table of rubrics. Only the training samples are captioned, since peers are not evaluated by
rubrics. By default the table is empty, and no model is called.
"""

import asyncio
from dataclasses import replace
from typing import Any

from pydantic import model_validator

from rubricworks.data.tables import build_table, count_rows
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job
from rubricworks.runtime.stage_below import run_below, run_within
from rubricworks.stages.synthesis import caption_committee, caption_student, synthesize_rubrics

_SPLITS = ("train",)
_PARTS = ("committee", "student", "rubric")


class Config(StageConfig):
    committee: caption_committee.Config | None = None
    """Captioners of the committee; `null` leaves the table empty."""
    student: caption_student.Config = caption_student.Config()
    """Captioning by the model before training."""
    rubric: synthesize_rubrics.Config | None = None
    """Rubric synthesis of the peer; only for a peer that grades by rubrics."""

    @model_validator(mode="before")
    @classmethod
    def _one_seed(cls, data: Any) -> Any:
        """Pass the stage's seed to the parts that set none."""
        if not isinstance(data, dict) or "seed" not in data:
            return data
        parts = {name: data.get(name, {} if name == "student" else None) for name in _PARTS}
        return data | {name: {"seed": data["seed"]} | part for name, part in parts.items() if isinstance(part, dict)}

    @model_validator(mode="after")
    def _is_whole(self) -> "Config":
        if (self.committee is None) != (self.rubric is None):
            missing = "committee" if self.committee is None else "rubric"
            raise ValueError(f"{missing} is not set: rubrics take a committee and a rubric writer, or neither")
        if self.committee and self.rubric:
            synthesize_rubrics.check_committee(self.committee, self.rubric)
        if self.rubric and self.rubric.audit and not self.rubric.audit.judges:
            raise ValueError("rubric.audit names no judges; give {action: warn, judges: [{url: …, model: …}]}")
        return self


def run(config: Config, job: Job) -> None:
    if config.committee is None or config.rubric is None:
        _write_empty_table(job)
        return
    samples = {"samples": job.inputs["samples"]}
    captions = run_below(caption_committee, config.committee, job, samples, _SPLITS)
    student_captions = run_below(
        caption_student, config.student, job, samples | {"model": job.inputs["model"]}, _SPLITS
    )
    inputs = samples | {"captions": captions, "student_captions": student_captions}
    run_within(synthesize_rubrics, config.rubric, replace(job, inputs=inputs), _SPLITS)
    job.figures.update(captions=count_rows(captions), student_captions=count_rows(student_captions))


def _write_empty_table(job: Job) -> None:
    async def no_rows(_: list[Any]) -> list[dict[str, Any]]:
        return []

    side_tables = {"dead_letters": job.out / "dead_letters"}
    asyncio.run(
        build_table(job.out, "rubrics", (), no_rows, made_by=job.made_by, shard_size=1, side_tables=side_tables)
    )
    job.figures["rubrics"] = 0
