"""Simulation of rewards that know the policy: a behavioural policy of 25 numbers in the scene world, over many seeds.

    python -m benchmarks.behavioural_policy --seeds 10      # five minutes of one core; docs/policy-aware-rewards.md

The policy decides, with the same odds in all scenes, whether to mention an object, whether shape, colour and size are
right, wrong or left out (apart for big and small objects), what word to read, and whether to invent an object. It is
trained by GRPO's policy gradient on the scripted writers' rubrics and the scripted judge's verdicts, as a captioner
would be. Quality is the oracle's F1, which no reward sees, averaged over ten steps; the same quality is nine tenths of
what the plain reward gains with the same seed. All of it is simulated, the policy too: `benchmarks.policy_aware`
compares trainings of the laptop's student.
"""

import argparse
import random
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.policy_aware import LAST, signed, steps_to, target
from rubricworks.data.tables import Sample
from rubricworks.metrics.intervals import t_interval
from rubricworks.rewards import signed_reward
from rubricworks.rubrics import Criterion, Rubric
from rubricworks.synthesis import add_pitfalls
from rubricworks.synthesis.pitfalls import PitfallDraft, pitfall_faults, pitfall_messages
from rubricworks.training.policy.refill import has_signal
from rubricworks.world.models.captioners import TEACHERS, teacher_caption
from rubricworks.world.models.judges import judge_criterion
from rubricworks.world.models.rubric_fixer import pitfalls_reply
from rubricworks.world.models.writer import WriterTask, write_rubric
from rubricworks.world.scene.oracle import score_caption
from rubricworks.world.scene.render import render_png
from rubricworks.world.scene.scene import CELLS, COLOURS, SHAPES, SIZES, WORDS, Scene, generate_scenes

SCENES, PROMPTS, GROUP, ROUNDS = 64, 8, 8, 3
DRAWS, SHOWN, MOST = 4, 2, 3
RIGHT, WRONG, OMITTED = range(3)
START = {"mention": (0.75, 0.25), "shape": (0.75, 0.25), "colour": (0.55, 0.3, 0.15), "size": (0.5, 0.3, 0.2)}
"""Odds of right, wrong and omitted; of an object: mentioned or not."""
ALONE = {"word": (0.4, 0.3, 0.3), "invent": (0.6, 0.4)}


Odds = NDArray[np.float64]


class Prompt(NamedTuple):
    """A scene with its rubric and the committee's captions."""

    scene: Scene
    references: tuple[str, ...]
    rubric: Rubric


class Variant(NamedTuple):
    """A way of training; the first with the same division and writer is the plain one."""

    name: str
    scale: str = "group"
    """What divides the centred rewards: the group's deviation, or nothing."""
    lenient: bool = False
    """The writer ignores inventions, and its rules pass a caption that contradicts itself."""
    faster: float = 1.0
    """Factor of the learning rate."""
    refill: bool = False
    pitfalls_every: int = 0
    """Steps between two additions of pitfalls; 0 for none."""


class Trained(NamedTuple):
    quality: list[float]
    """Oracle F1 of each step's rollouts."""
    invents: float
    """Odds that a caption of the policy invents an object, at the end."""
    captions: int
    """Captions that were drawn in all."""


RATES = {"group": 0.3, "none": 1.5}
VARIANTS = [
    Variant("plain"),
    Variant("refill, 3 rounds", refill=True),
    Variant("plain", scale="none"),
    Variant("plain, 1.5 x the learning rate", scale="none", faster=1.5),
    Variant("plain", lenient=True),
    Variant("pitfalls, every 25 steps", lenient=True, pitfalls_every=25),
]


class Policy:
    """Logits of each decision."""

    def __init__(self) -> None:
        odds = {f"{size} {name}": share for size in SIZES for name, share in START.items()} | ALONE
        self.logits = {name: np.log(np.array(share)) for name, share in odds.items()}

    def odds(self, name: str) -> Odds:
        odds = np.exp(self.logits[name] - self.logits[name].max())
        return np.asarray(odds / odds.sum())

    def caption(self, scene: Scene, rng: random.Random) -> tuple[str, dict[str, Odds]]:
        """A caption, and the gradient of its log-probability."""
        gradient = {name: np.zeros_like(logit) for name, logit in self.logits.items()}

        def choose(name: str) -> int:
            odds = self.odds(name)
            choice = rng.choices(range(len(odds)), odds)[0]
            gradient[name] -= odds
            gradient[name][choice] += 1
            return choice

        def say(name: str, right: str, values: Sequence[str]) -> str:
            choice = choose(name)
            return {RIGHT: f"{right} ", OMITTED: ""}.get(
                choice, f"{rng.choice([value for value in values if value != right])} "
            )

        sentences = []
        for item in scene.objects:
            if choose(f"{item.size} mention") == RIGHT:
                size = say(f"{item.size} size", item.size, SIZES)
                colour = say(f"{item.size} colour", item.colour, COLOURS)
                shape = say(f"{item.size} shape", item.shape, SHAPES)
                sentences.append(f"at {item.cell} a {size}{colour}{shape}.")
        if choose("invent"):
            free = [cell for cell in CELLS if cell not in {item.cell for item in scene.objects}]
            sentences.append(f"at {rng.choice(free)} a {rng.choice(COLOURS)} {rng.choice(SHAPES)} .")
        if scene.word and (word := say("word", scene.word, WORDS)):
            sentences.append(f"the word {word}.")
        return " ".join(sentences), gradient


def prompts_of(seed: int, *, lenient: bool) -> list[Prompt]:
    """Scenes whose rubric asks for something: discriminative, from captions that the first policy draws."""
    rng, policy, prompts = random.Random(seed), Policy(), []
    for number, scene in enumerate(generate_scenes(seed, SCENES)):
        texts = tuple(teacher_caption(name, scene, str(number), world_seed=seed) for name in TEACHERS)
        candidates = {f"Model {at}": text for at, text in enumerate(texts, start=1)}
        task = WriterTask((policy.caption(scene, rng)[0],), candidates, 3, "discriminative", guards=False)
        if written := write_rubric(task, lenient=lenient):
            criteria = tuple(Criterion.model_validate(criterion) for criterion in written)
            prompts.append(Prompt(scene, texts, Rubric(criteria=criteria)))
    return prompts


def credits_of(rubric: Rubric, text: str) -> list[float]:
    return [
        float(judge_criterion(criterion.criterion, criterion.evaluation_rule, text)[0]) for criterion in rubric.criteria
    ]


def with_pitfalls(prompt: Prompt, policy: Policy, rng: random.Random) -> Prompt:
    """Add pitfalls as `policy.reward.refresh.pitfalls` does."""
    texts = dict.fromkeys(policy.caption(prompt.scene, rng)[0] for _ in range(DRAWS))
    rubric = prompt.rubric
    failures = sorted(texts, key=lambda text: signed_reward(credits_of(rubric, text), rubric.weights) or 0.0)[:SHOWN]
    sample = Sample(sample_id="s", image=render_png(prompt.scene), prompt="")
    messages = pitfall_messages(sample, prompt.references, failures, rubric, most=MOST)
    draft = PitfallDraft.model_validate_json(pitfalls_reply(messages[1]["content"][1]["text"]))
    if not draft.pitfalls:
        return prompt
    written = [
        Criterion(criterion=pitfall.criterion, evaluation_rule=pitfall.evaluation_rule, weight=pitfall.weight)
        for pitfall in draft.pitfalls
    ]
    test = Rubric(criteria=tuple(written))
    faults = pitfall_faults(
        [credits_of(test, text) for text in prompt.references], [credits_of(test, text) for text in failures]
    )
    criteria = [
        criterion.model_copy(update={"weight": -criterion.weight})
        for criterion, fault in zip(written, faults, strict=True)
        if not fault
    ]
    return prompt._replace(rubric=add_pitfalls(rubric, criteria, MOST))


def train(seed: int, prompts: Sequence[Prompt], variant: Variant, *, steps: int) -> Trained:
    policy, rng, quality, captions = Policy(), random.Random(seed), list[float](), 0
    prompts = list(prompts)
    for step in range(steps):
        if variant.pitfalls_every and step and step % variant.pitfalls_every == 0:
            prompts = [with_pitfalls(prompt, policy, rng) for prompt in prompts]
        total = {name: np.zeros_like(logit) for name, logit in policy.logits.items()}
        scores, trained = list[float](), 0
        order = rng.sample(prompts, len(prompts))
        for prompt in order[: PROMPTS * (1 + ROUNDS if variant.refill else 1)]:
            if trained == PROMPTS:
                break
            drawn = [policy.caption(prompt.scene, rng) for _ in range(GROUP)]
            captions += GROUP
            scores += [score_caption(prompt.scene, text).f1 for text, _ in drawn]
            credits = [credits_of(prompt.rubric, text) for text, _ in drawn]
            weights = prompt.rubric.weights
            rewards = [signed_reward(row, weights) or 0.0 for row in credits]
            if variant.refill and not has_signal(rewards, None):
                continue
            trained += 1
            mean, deviation = fmean(rewards), stdev(rewards)
            for reward, (_, gradient) in zip(rewards, drawn, strict=True):
                advantage = (reward - mean) / (deviation + 1e-4 if variant.scale == "group" else 1)
                for name, part in gradient.items():
                    total[name] += advantage * part
        for name, part in total.items():
            policy.logits[name] += RATES[variant.scale] * variant.faster * part / (PROMPTS * GROUP)
        quality.append(fmean(scores))
    return Trained(quality, float(policy.odds("invent")[1]), captions)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=10)
    options.add_argument("--steps", type=int, default=120)
    arguments = options.parse_args()
    seeds = range(1, arguments.seeds + 1)
    columns = ["writer", "rewards divided by", "reward", "steps to the same quality", "F1 at the end", "inventions"]
    print(f"| {' | '.join([*columns, 'captions'])} |\n{'|---' * (len(columns) + 1)}|")
    plain: list[Trained] = []
    for variant in VARIANTS:
        trainings = [
            train(seed, prompts_of(seed, lenient=variant.lenient), variant, steps=arguments.steps) for seed in seeds
        ]
        if variant.name == "plain":
            plain = trainings
        print(_line(variant, trainings, plain), flush=True)


def _line(variant: Variant, trainings: Sequence[Trained], plain: Sequence[Trained]) -> str:
    levels = [target(trained.quality) for trained in plain]
    # A training that never gets there counts as one step more than it had.
    steps, plain_steps = (
        [
            steps_to(level, trained.quality) or len(trained.quality) + 1
            for level, trained in zip(levels, several, strict=True)
        ]
        for several in (trainings, plain)
    )
    ends, plain_ends = ([fmean(trained.quality[-LAST:]) for trained in several] for several in (trainings, plain))
    invents, plain_invents = ([trained.invents for trained in several] for several in (trainings, plain))
    measured = [(steps, plain_steps, 0), (ends, plain_ends, 3), (invents, plain_invents, 2)]
    cells = [
        f"{fmean(values):.{digits}f}" + ("" if trainings is plain else f", {_beside(values, others, max(digits, 1))}")
        for values, others, digits in measured
    ]
    writer, division = "lenient" if variant.lenient else "strict", {"group": "deviation", "none": "1"}[variant.scale]
    drawn = fmean(trained.captions for trained in trainings)
    return f"| {writer} | {division} | {variant.name} | {' | '.join(cells)} | {drawn:,.0f} |"


def _beside(values: Sequence[float], others: Sequence[float], digits: int) -> str:
    return signed(t_interval([value - other for value, other in zip(values, others, strict=True)]), digits)


if __name__ == "__main__":
    main()
