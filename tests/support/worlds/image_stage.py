"""A training of a text-to-image policy in small: images drawn step by step, rewarded by a judge, stored as tables.

python -m image_stage RUN CONFIG

It prints how often an image was base64-encoded, and the memory that Python's objects took at most, in bytes.
"""

import asyncio
import base64
import json
import resource
import sys
import tracemalloc
from types import SimpleNamespace
from unittest.mock import patch

from image_judge import COLOUR_RUBRIC, COLOURS, noisy_image

from rubricworks.adapters.trl import RubricReward
from rubricworks.grading import Grader
from rubricworks.llm import Endpoint, messages
from rubricworks.policy.step_tables import StepTables, scorecard_table
from rubricworks.policy.training import DeadLetters
from rubricworks.rubrics import Response
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job
from rubricworks.runtime.launch import launch
from rubricworks.runtime.stage_table import STAGES, Stage

GROUP = 4
BROKEN = b"\x89PNG\r\n\x1a\n and nothing that a decoder reads"


class Config(StageConfig):
    judge: Endpoint
    images: int
    per_step: int = 20


def drawn(number: int) -> bytes:
    """Image of a rollout: the colours in turn, and in place of the fifth one that is broken."""
    return BROKEN if number == 4 else noisy_image(list(COLOURS)[number % 3], number)


def run(config: Config, job: Job) -> None:
    client, gradings, letters = job.client(config.judge, "judge"), scorecard_table(), DeadLetters(job)
    reward = RubricReward(Grader(client, call_per="criterion", on_error=letters.add), sink=gradings.add)

    async def train() -> None:
        async with client:
            with StepTables(job, every=5) as tables:
                for step in range(1, config.images // config.per_step + 1):
                    numbers = range((step - 1) * config.per_step, step * config.per_step)
                    completions = [Response.of_image(drawn(number)) for number in numbers]
                    names = [f"prompt-{number // GROUP}" for number in numbers]
                    prompts = [f"a picture for {name}" for name in names]
                    rewards = await reward(prompts, completions, rubric=[COLOUR_RUBRIC] * len(names), sample_id=names)
                    rollouts = SimpleNamespace(
                        step=step,
                        sample_ids=names,
                        responses=completions,
                        tokens=[1] * len(names),
                        rewards=rewards,
                        advantages=[0.0] * len(names),
                    )
                    tables.add(rollouts, gradings.drain(rollouts)[0], letters.drain())

    asyncio.run(train())


def launch_here(run_uri: str, config: dict) -> None:
    sys.modules["rubricworks.stages.image_stage"] = sys.modules[__name__]
    with patch.dict(STAGES, image_stage=Stage("image_stage", "stages", "training", "cpu")):
        launch("image_stage", json.dumps(config), run_uri, {})


def main() -> None:
    encode, encoded = base64.b64encode, []

    def counted(content: bytes) -> bytes:
        encoded.append(len(content))
        return encode(content)

    tracemalloc.start()
    with patch.object(messages.base64, "b64encode", counted):
        launch_here(sys.argv[1], json.loads(sys.argv[2]))
    _, peak = tracemalloc.get_traced_memory()
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"encoded": len(encoded), "bytes": sum(encoded), "peak": peak, "resident": resident}))


if __name__ == "__main__":
    main()
