"""Cost of a rubric reward in a GRPO step: `make bench-reward`, or `python -m benchmarks.reward [--steps N]`.

One training of the laptop student, whose reward is in turn a `RubricReward` against a judge that answers at once
(another process, cache on, ten criteria, one call per response) and a constant. Both give every rollout the same
number, so the policy stays as it is and all steps do the same work; a step is timed from one reward call to the next.
The client alone is measured by `make bench-grading`.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "0")


from benchmarks.canned_judge import canned_judge
from rubricworks.adapters.trl import RubricReward
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient, Endpoint
from rubricworks.rubrics import Criterion, Rubric
from rubricworks.world.scene.captions import write_caption
from rubricworks.world.scene.render import render_png
from rubricworks.world.scene.scene import generate_scenes

_CRITERIA = 10
_SCENES = 32
_PROMPT = "describe the scene"
_TARGET = 5.0


def rubric(number: int) -> Rubric:
    """Ten criteria of the length that a writer gives them."""
    return Rubric(
        criteria=tuple(
            Criterion(
                criterion=f"Names the object {place} of scene {number}",
                description="Whether the object that most candidates place at the top left is found and named.",
                evaluation_rule="Passes if the caption names a circle at the top left. Fails if it names none there.",
                weight=1 + place % 3,
            )
            for place in range(_CRITERIA)
        )
    )


class InTurn:
    """Calls two rewards in turn and notes when each call began and how long it took."""

    __name__ = "in_turn"

    def __init__(self, rubric_reward: RubricReward) -> None:
        self._rubric_reward = rubric_reward
        self.began: list[float] = []
        self.took: list[float] = []

    async def __call__(self, prompts, completions, **columns) -> list[float | None]:
        began = time.perf_counter()
        if len(self.began) % 2 == 0:
            rewards = await self._rubric_reward(prompts=prompts, completions=completions, **columns)
            assert rewards == [1.0] * len(completions), "the canned judge failed"
        else:
            rewards = [1.0] * len(completions)
        self.began.append(began)
        self.took.append(time.perf_counter() - began)
        return rewards


def step_overhead(url: str, folder: Path, steps: int) -> None:
    from rubricworks.training.config import TextGrpoConfig
    from rubricworks.training.policy.grpo import train_policy
    from rubricworks.training.tiny.student import build_student

    scenes = list(generate_scenes(0, _SCENES))
    images = [render_png(scene) for scene in scenes]
    texts = [write_caption(scene, "canonical") for scene in scenes] + [_PROMPT]
    student = build_student(texts, folder / "student", images=images)
    rows = [
        {"sample_id": str(n), "image": image, "prompt": _PROMPT, "rubric": rubric(n).model_dump_json()}
        for n, image in enumerate(images)
    ]
    client = ChatClient(Endpoint(url=url, model="judge"), cache=folder / "cache.sqlite", purpose="judge")
    reward = InTurn(RubricReward(Grader(client)))
    config = TextGrpoConfig(steps=steps, save_every=steps, log_every=steps)
    train_policy(student, rows, reward, folder / "policy", config)
    asyncio.run(client.close())

    seconds = [after - before for before, after in zip(reward.began, reward.began[1:], strict=False)]
    with_rubric, constant = seconds[4::2], seconds[5::2]
    median, plain = statistics.median(with_rubric), statistics.median(constant)
    inside = statistics.median(reward.took[4::2])
    rollouts = config.rollouts.group_size * config.rollouts.prompts_per_step
    print(
        f"GRPO step, {rollouts} rollouts, {_CRITERIA} criteria each, one call per response; "
        f"{len(seconds) - 4} steps timed"
    )
    print(f"  constant reward        {1e3 * plain:8.1f} ms/step (median)")
    print(f"  RubricReward           {1e3 * median:8.1f} ms/step (median), {1e3 * inside:.1f} ms of it in the reward")
    print(f"  overhead               {100 * (median / plain - 1):8.1f} %  of the step (target: at most {_TARGET:g} %)")
    print(f"  the reward's own time  {100 * inside / plain:8.1f} %  of the step")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--steps", type=int, default=64)
    steps = options.parse_args().steps
    with tempfile.TemporaryDirectory() as scratch, canned_judge() as url:
        step_overhead(url, Path(scratch), steps)


if __name__ == "__main__":
    main()
