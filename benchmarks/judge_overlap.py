"""Step time with judge calls that overlap with sampling: `make bench-overlap`.

One training of the quickstart's student, taught to caption, at the quickstart's sizes: 64 rollouts a step, one call of
a judge for each, every answer held back (200 ms by default). Of three steps, one starts the calls as rollouts end, one
after all are sampled, and one has no judge. All rewards are 1, so the policy stays as it is and all steps do the same.
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
from benchmarks.reward import rubric
from rubricworks.adapters.trl import RubricReward
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient, Endpoint
from rubricworks.world.scene.captions import write_caption
from rubricworks.world.scene.render import render_png
from rubricworks.world.scene.scene import generate_scenes

_SCENES = 512
_PROMPT = "describe the image"
_MODES = ("as rollouts end", "after sampling", "no judge")
_WARM_UP = 5
"""First rounds of steps, which are not timed."""


class InTurn:
    """Rewards of 1: by the judge, its calls started as rollouts end; by the judge, after sampling; without it."""

    __name__ = "in_turn"

    def __init__(self, reward: RubricReward) -> None:
        self._reward = reward
        self.ended: list[float] = []
        self.took: list[float] = []

    @property
    def _mode(self) -> int:
        return len(self.ended) % len(_MODES)

    async def start(self, rows, prompts, completions, **columns) -> None:
        if self._mode == 0:
            await self._reward.start(rows, prompts, completions, **columns)

    async def __call__(self, prompts, completions, **columns) -> list[float | None]:
        began, rewards = time.perf_counter(), [1.0] * len(completions)
        if self._mode < 2:
            judged = await self._reward(prompts=prompts, completions=completions, **columns)
            assert judged == rewards, "the canned judge failed"
        self.took.append(time.perf_counter() - began)
        self.ended.append(time.perf_counter())
        return rewards


def timed_sampling() -> list[float]:
    """Return the seconds of each step's sampling, which fill up as a training goes on."""
    from rubricworks.training.policy.rollouts import PolicyTrainer

    seconds: list[float] = []
    generate = PolicyTrainer._generate

    def timed(self, prompts):
        began = time.perf_counter()
        generated = generate(self, prompts)
        seconds.append(time.perf_counter() - began)
        return generated

    PolicyTrainer._generate = timed
    return seconds


def train(url: str, folder: Path, steps: int) -> tuple[InTurn, list[float]]:
    from rubricworks.training.config import SftConfig, TextGrpoConfig
    from rubricworks.training.policy.grpo import train_policy
    from rubricworks.training.sft import train_sft
    from rubricworks.training.tiny.student import build_student

    scenes = list(generate_scenes(0, _SCENES))
    images = [render_png(scene) for scene in scenes]
    captions = [write_caption(scene, "canonical") for scene in scenes]
    student = build_student([*captions, _PROMPT], folder / "student", images=images)
    examples = list(zip(images, [_PROMPT] * len(images), captions, strict=True))
    warm = train_sft(student, examples, folder / "warm", SftConfig(steps=240, batch_size=64))
    rows = [
        {"sample_id": str(number), "image": image, "prompt": _PROMPT, "rubric": rubric(number).model_dump_json()}
        for number, image in enumerate(images)
    ]
    client = ChatClient(Endpoint(url=url, model="judge", concurrency=64), purpose="judge")
    reward, sampling = InTurn(RubricReward(Grader(client))), timed_sampling()
    rollouts = {"group_size": 8, "prompts_per_step": 8, "max_new_tokens": 44}
    config = TextGrpoConfig(steps=steps, save_every=steps, log_every=steps, loss="dr_grpo", rollouts=rollouts)
    train_policy(warm, rows, reward, folder / "policy", config, start=reward.start)
    asyncio.run(client.close())
    return reward, sampling


def report(reward: InTurn, sampling: list[float], delay_s: float) -> None:
    # A step is timed from the rewards of the one before: its update, then this one's sampling and judging.
    step = [after - before for before, after in zip(reward.ended, reward.ended[1:], strict=False)]

    def median(seconds: list[float], mode: int, offset: int) -> float:
        return 1e3 * statistics.median(seconds[_WARM_UP * len(_MODES) + mode - offset :: len(_MODES)])

    early, late, none = (median(step, mode, 1) for mode in range(len(_MODES)))
    sampled, judged = median(sampling, 1, 0), median(reward.took, 1, 0)
    waits = median(reward.took, 0, 0)
    update = none - median(sampling, 2, 0)
    ideal = max(sampled, judged) + update
    timed = len(step) - _WARM_UP * len(_MODES)
    print(f"GRPO step, 64 rollouts, a judge that answers after {1e3 * delay_s:.0f} ms; {timed} steps timed")
    print(f"  sampling {sampled:.0f} ms, judging {judged:.0f} ms, update {update:.0f} ms")
    for mode, value in zip(_MODES, (early, late, none), strict=True):
        print(f"  judge calls {mode:16} {value:7.0f} ms/step (median)")
    print(f"  ideal: max(sampling, judging) + update {ideal:4.0f} ms/step")
    print(f"  after sampling the step waits {waits:.0f} ms for the judge instead of {judged:.0f} ms")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--steps", type=int, default=105)
    options.add_argument("--delay", type=float, default=0.2, help="seconds before the judge's answer")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch, canned_judge(delay_s=given.delay) as url:
        report(*train(url, Path(scratch), given.steps), given.delay)


if __name__ == "__main__":
    main()
