"""A stage in small: every train sample's response graded by a judge, built into a table.

python -m grading_stage RUN SAMPLES CONFIG
"""

import json
import sys
from pathlib import Path
from typing import Literal
from unittest.mock import patch

from rubricworks.data.response_images import response_columns
from rubricworks.data.tables import Sample, count_samples, read_samples
from rubricworks.grading import Grader
from rubricworks.llm import Endpoint
from rubricworks.rubrics import Criterion, Rubric
from rubricworks.runtime.call_table import Answers, Row, ask_all, grading_dead_letters
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job
from rubricworks.runtime.launch import launch
from rubricworks.runtime.stage_table import STAGES, Stage

RUBRIC = Rubric(criteria=tuple(Criterion(criterion=title, weight=1) for title in ("Colour", "Shape", "Place")))


class Config(StageConfig):
    judges: tuple[Endpoint, ...]
    call_per: Literal["response", "criterion"] = "response"
    shard_size: int = 8


def run(config: Config, job: Job) -> None:
    clients = [job.client(judge, "judge") for judge in config.judges]

    async def grade(sample: Sample) -> Answers:
        letters: list[Row] = []
        grader = Grader(
            clients, call_per=config.call_per, on_error=lambda call: letters.extend(grading_dead_letters(job, call))
        )
        card = await grader.grade(sample, f"caption of {sample.sample_id}", RUBRIC)
        row = {"step": 0, "sample_id": card.sample_id, **response_columns(card.response), "judge": card.judge}
        letters.sort(key=lambda letter: (letter["purpose"], letter["criterion"]))
        return Answers([{**row, "scorecard": card.model_dump_json(), "reward": None}], letters)

    samples = job.inputs["samples"]
    ask_all(
        job,
        "scorecards",
        read_samples(samples, "train"),
        grade,
        total=count_samples(samples, "train"),
        shard_size=config.shard_size,
        clients=clients,
    )


def launch_here(run_folder: Path, samples: str, config: dict) -> Path:
    """Through the one door of all stages, under the name `grading_stage`."""
    sys.modules["rubricworks.stages.grading_stage"] = sys.modules[__name__]
    line = Stage("grading_stage", "stages", "evaluation", "cpu")
    with patch.dict(STAGES, grading_stage=line):
        return Path(launch("grading_stage", json.dumps(config), str(run_folder), {"samples": samples}))


if __name__ == "__main__":
    launch_here(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))
