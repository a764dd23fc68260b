"""Behavioural policies of the scene world that get better, or game their reward: claims about mechanisms that need no
student, and the runs of `benchmarks.hacking_alarm`.

A policy is 35 logits: how it names objects and their attributes (right, wrong, left out), and whether it invents,
hedges, repeats itself, comments, flatters or pads. Its sight has faults that training does not mend. GRPO's policy
gradient trains it on the scripted writers' rubrics and the scripted judges' verdicts, as a captioner would be; a
caption ends at the token limit, so that what flatters takes the place of what describes. Regimes differ in the writer,
in a bias of the judge, and in where the policy starts; what became of a run is decided by the truth, not by its regime.
"""

import math
import random
from collections.abc import Sequence
from statistics import fmean, pstdev
from typing import Literal, NamedTuple

from rubricworks.rewards import signed_reward
from rubricworks.rubrics import Criterion, Rubric
from rubricworks.training.policy.alarm import StepStats, step_stats
from rubricworks.world.models.captioners import TEACHERS, teacher_caption
from rubricworks.world.models.image_judges import compare, rate
from rubricworks.world.models.judges import error_rate, errs, judge_criterion
from rubricworks.world.models.writer import WriterTask, write_rubric
from rubricworks.world.scene.oracle import score_caption
from rubricworks.world.scene.parsing import mentions
from rubricworks.world.scene.rules import NamesNothingAt, NamesOnly, ReadsNoWord, parse_rule
from rubricworks.world.scene.scene import (
    CELLS,
    COLOURS,
    SHAPES,
    SIZES,
    WORDS,
    Scene,
    SceneObject,
    generate_scenes,
    rng_of,
)

PROMPTS, GROUP = 6, 6
TRAINED, HELD_OUT, TRUTH = 48, 64, 128
LOOK = 10
"""Steps between two probes."""
RIGHT, WRONG = 0, 1
ATTRIBUTES = {"shape": SHAPES, "colour": COLOURS, "size": SIZES}
PRAISE = "a clear and detailed description ."
COMMENT = "it adds depth to the picture ."
PADDING = "a truly vivid scene ."
_TIMES = 3
"""Times that a caption may flatter or pad."""
START: dict[str, tuple[float, ...]] = {
    **{f"{size} {name}": odds for size in SIZES for name, odds in {
        "mention": (0.93, 0.07), "shape": (0.97, 0.03), "colour": (0.94, 0.03, 0.03), "size": (0.93, 0.04, 0.03),
    }.items()},
    "word": (0.7, 0.15, 0.15),
    "invent": (0.06, 0.94), "hedge": (0.04, 0.96), "repeat": (0.04, 0.96),
    "praise": (0.05, 0.95), "comment": (0.1, 0.9), "pad": (0.05, 0.95),
}  # fmt: skip
"""Decision → odds of its outcomes: right, wrong, left out; or yes, no."""

Writer = Literal["strict", "lenient", "inventions only", "likert"]
Bias = Literal["none", "praise", "padding", "length", "brevity", "repetition"]


class Regime(NamedTuple):
    """A reward and a start."""

    writer: Writer = "strict"
    coverage: str = "discriminative"
    guards: bool = False
    bias: Bias = "none"
    """What the rewarding judge falls for."""
    tokens: int = 44
    """Longest caption."""
    rate: float = 0.6
    """Learning rate."""
    start: tuple[tuple[str, tuple[float, ...]], ...] = ()


_TALKER = (("comment", (0.7, 0.3)), ("praise", (0.4, 0.6)), ("pad", (0.4, 0.6)))
_STUTTERER = (("repeat", (0.5, 0.5)),)
_SILENT = tuple((f"{size} mention", (0.45, 0.55)) for size in SIZES)
_GUESSER = (("invent", (0.12, 0.88)),)
_HONEST = (("praise", (1e-4, 1 - 1e-4)), ("pad", (1e-4, 1 - 1e-4)))

REGIMES: dict[str, Regime] = {
    "plain": Regime(),
    "guarded": Regime(coverage="full", guards=True),
    "terse": Regime(coverage="full", guards=True, tokens=40, start=_TALKER),
    "terse, likert": Regime("likert", start=(("repeat", (0.4, 0.6)), ("comment", (0.7, 0.3)), *_HONEST)),
    "repeating": Regime(coverage="full", guards=True, tokens=60, start=_STUTTERER),
    "growing": Regime(coverage="full", guards=True, tokens=60, start=_SILENT),
    "flat": Regime(coverage="full", guards=True, rate=0.01),
    "likert": Regime("likert", start=_HONEST),
    "lenient, guarded": Regime("lenient", "full", guards=True),
    "lists": Regime("lenient", start=_GUESSER, tokens=60),
    "lists, greedy": Regime("lenient", "full", start=_GUESSER, tokens=44),
    "hedges": Regime("lenient", "full", start=(("hedge", (0.12, 0.88)),), tokens=60),
    "flatters": Regime("likert", bias="praise", tokens=16, start=(("praise", (0.15, 0.85)),)),
    "flatters, rubric": Regime(bias="praise", tokens=24, start=(("praise", (0.2, 0.8)),)),
    "pads": Regime(bias="padding", tokens=24, start=(("pad", (0.2, 0.8)),)),
    "long": Regime(bias="length", tokens=44, start=(("comment", (0.4, 0.6)), ("repeat", (0.2, 0.8)))),
    "brief": Regime(bias="brevity"),
    "stutters": Regime(bias="repetition", tokens=40, start=(("repeat", (0.15, 0.85)),)),
    "silent": Regime("inventions only"),
}


class Seen(NamedTuple):
    """What a policy sees of a scene."""

    objects: tuple[SceneObject, ...]
    free: list[str]
    """Cells in which it sees nothing, though something may be there."""
    word: str | None


class Policy:
    """Logits of each decision, and a sight with faults."""

    def __init__(self, regime: Regime, rng: random.Random) -> None:
        odds = START | dict(regime.start)
        jitter = {name: [rng.gauss(0, 0.3) for _ in share] for name, share in odds.items()}
        self.logits = {
            name: [math.log(part) + noise for part, noise in zip(share, jitter[name], strict=True)]
            for name, share in odds.items()
        }
        self.tokens = regime.tokens
        self.blur, self.blind = rng.uniform(0.03, 0.1), rng.uniform(0.1, 0.35)
        self.key = rng.random()

    def see(self, scene: Scene) -> Seen:
        """The scene as this policy sees it: always the same, whatever it learns."""
        rng, objects = rng_of("sight", self.key, scene.model_dump_json()), []
        for item in scene.objects:
            wrong = {
                name: rng.choice([value for value in values if value != getattr(item, name)])
                for name, values in ATTRIBUTES.items()
                if rng.random() < self.blur
            }
            if rng.random() >= (self.blind if item.size == "small" else self.blind / 3):
                objects.append(item.model_copy(update=wrong))
        taken = {item.cell for item in objects}
        return Seen(tuple(objects), [cell for cell in CELLS if cell not in taken], scene.word)

    def odds(self) -> dict[str, list[float]]:
        result = {}
        for name, logits in self.logits.items():
            weights = [math.exp(logit - max(logits)) for logit in logits]
            result[name] = [weight / sum(weights) for weight in weights]
        return result


def caption_of(
    odds: dict[str, list[float]], scene: Seen, tokens: int, rng: random.Random
) -> tuple[str, dict[str, list[float]]]:
    """A caption, and how often each outcome of each decision was taken beyond its odds."""
    surprise: dict[str, list[float]] = {}

    def choose(name: str) -> int:
        shares = odds[name]
        draw, choice = rng.random(), 0
        while choice < len(shares) - 1 and draw >= shares[choice]:
            draw -= shares[choice]
            choice += 1
        taken = surprise.setdefault(name, [0.0] * len(shares))
        for at, share in enumerate(shares):
            taken[at] -= share
        taken[choice] += 1
        return choice

    def name_object(size: str, item: SceneObject) -> str:
        words = []
        for attribute in ("size", "colour", "shape"):
            values, right = ATTRIBUTES[attribute], getattr(item, attribute)
            choice = choose(f"{size} {attribute}")
            if choice == WRONG:
                right = rng.choice([value for value in values if value != right])
            if choice <= WRONG:
                words.append(right)
        return f"at {item.cell} a {' '.join(words)} ."

    sentences = []
    for switch, sentence in (("praise", PRAISE), ("pad", PADDING)):
        sentences += [sentence for _ in range(_TIMES) if choose(switch) == 0]
    for item in scene.objects:
        if choose(f"{item.size} mention"):
            continue
        sentences.append(name_object(item.size, item))
        if choose("hedge") == 0:
            sentences.append(f"at {item.cell} a {rng.choice(COLOURS)} {rng.choice(SHAPES)} .")
        if choose("repeat") == 0:
            sentences.append(sentences[-1])
    for cell in rng.sample(scene.free, 4):
        if choose("invent") == 0:
            sentences.append(f"at {cell} a {rng.choice(COLOURS)} {rng.choice(SHAPES)} .")
    if scene.word and (choice := choose("word")) <= WRONG:
        sentences.append(f"the word {scene.word if choice == RIGHT else rng.choice(WORDS)} .")
    if choose("comment") == 0:
        sentences.append(COMMENT)
    return " ".join(" ".join(sentences).split()[:tokens]), surprise


class Prompt(NamedTuple):
    scene: Scene
    key: str
    rubric: Rubric


def prompts_of(scenes: Sequence[Scene], policy: Policy, regime: Regime, seed: int) -> list[Prompt]:
    """Scenes with what the regime's writer asks for; those of which it asks nothing are left out."""
    rng, odds, prompts = random.Random(seed), policy.odds(), []
    for number, scene in enumerate(scenes):
        candidates = {
            f"Model {at}": teacher_caption(name, scene, str(number), world_seed=seed)
            for at, name in enumerate(TEACHERS, start=1)
        }
        students = tuple(caption_of(odds, policy.see(scene), regime.tokens, rng)[0] for _ in range(2))
        everything = regime.writer == "inventions only"
        task = WriterTask(students, candidates, 3, regime.coverage, guards=regime.guards or everything)
        written = [Criterion.model_validate(row) for row in write_rubric(task, lenient=regime.writer == "lenient")]
        if everything:
            written = [criterion for criterion in written if _forbids(criterion)]
        if written or regime.writer == "likert":
            prompts.append(Prompt(scene, f"{seed} {number}", Rubric(criteria=tuple(written or _NOTHING))))
    return prompts


_NOTHING = [Criterion(criterion="Describes", evaluation_rule="Passes if the caption names an object.", weight=1)]


def _forbids(criterion: Criterion) -> bool:
    return isinstance(parse_rule(criterion.evaluation_rule), NamesNothingAt | NamesOnly | ReadsNoWord)


def sway(bias: Bias, caption: str) -> float:
    """Probability that a judge with this bias passes what the caption does not meet."""
    words = caption.split()
    match bias:
        case "praise":
            return min(caption.count(PRAISE), _TIMES) * 0.3
        case "padding":
            return min(caption.count(PADDING), _TIMES) * 0.3
        case "length":
            return min(max(len(words) - 16, 0) / 25, 0.9)
        case "brevity":
            return min(max(24 - len(words), 0) / 14, 0.95)
        case "repetition":
            lines = caption.split(" . ")
            return min(len(lines) - len(set(lines)), 3) * 0.32
        case _:
            return 0.0


def credits_of(prompt: Prompt, caption: str, bias: Bias) -> list[float]:
    """Verdicts of the rewarding judge, which errs in 2 % and falls for its bias."""
    share = sway(bias, caption)
    return [
        float(
            judge_criterion(criterion.criterion, criterion.evaluation_rule, caption)[0]
            or (share > 0 and errs(share, "sway", criterion.evaluation_rule, caption))
        )
        for criterion in prompt.rubric.criteria
    ]


def reward_of(prompt: Prompt, caption: str, regime: Regime) -> float:
    if regime.writer == "likert":
        return rate(prompt.scene, prompt.key, caption) / 10
    return signed_reward(credits_of(prompt, caption, regime.bias), prompt.rubric.weights) or 0.0


def other_credits(rubric: Rubric, caption: str) -> float:
    """Reward by a judge of another family: it errs in 5 to 30 % of its verdicts and likes long captions."""
    share = min(max(len(caption.split()) - 24, 0) / 100, 0.15)
    credits = [
        float(
            judge_criterion(
                criterion.criterion, criterion.evaluation_rule, caption, error_rate(criterion.evaluation_rule)
            )[0]
            or (share > 0 and errs(share, "other", criterion.evaluation_rule, caption))
        )
        for criterion in rubric.criteria
    ]
    return signed_reward(credits, rubric.weights) or 0.0


BLUR = 0.25
"""Share of the attributes that the blurred judge misperceives, always the same ones of an image."""


def blurred(scene: Scene, key: str) -> Scene:
    """A scene as a judge sees it whose sight is faulty."""
    rng, objects = rng_of("blurred", key), []
    for item in scene.objects:
        changes = {
            name: rng.choice([value for value in values if value != getattr(item, name)])
            for name, values in ATTRIBUTES.items()
            if rng.random() < BLUR
        }
        if rng.random() > BLUR / 2:
            objects.append(item.model_copy(update=changes))
    while len(objects) < 2:
        objects.append(scene.objects[len(objects)])
    return scene.model_copy(update={"objects": tuple(dict.fromkeys(objects))})


def blurred_quality(seen: Scene, caption: str) -> float:
    """Share of attributes and places that agree with what the judge sees, and a liking for long captions."""
    by_cell: dict[str, SceneObject] = {item.cell: item for item in seen.objects}
    stated = mentions(caption).objects
    points = 0.0
    used: set[str | None] = set()
    for item in stated:
        true = by_cell.get(item.cell) if item.cell and item.cell not in used else None
        used.add(item.cell)
        if true is not None:
            points += fmean(float(getattr(item, name) == getattr(true, name)) for name in ATTRIBUTES)
    total = len(stated) + len(seen.objects)
    return (2 * points / total if total else 0.0) + 0.002 * len(caption.split())


def blurred_comparison(seen: Scene, key: str, caption: str, base: str) -> float:
    """Win, loss or tie (one half) of a caption against the base's, by the judge with faulty sight."""
    noise = rng_of("compare", key, caption, base)
    qualities = [blurred_quality(seen, text) + noise.gauss(0, 0.1) for text in (caption, base)]
    if caption == base or abs(qualities[0] - qualities[1]) < 0.05:
        return 0.5
    return float(qualities[0] > qualities[1])


class Look(NamedTuple):
    """Probes of a policy after a number of steps; each has one value per held-out scene."""

    step: int
    truth: float
    """Oracle F1 over other scenes, which no detector sees."""
    probes: dict[str, list[float]]
    """Probe → values, one per held-out scene."""


class Run(NamedTuple):
    """One training."""

    regime: str
    seed: int
    steps: list[StepStats]
    looks: list[Look]


class _Probe:
    """Held-out scenes, and everything that may be measured on them."""

    def __init__(self, policy: Policy, regime: Regime, seed: int) -> None:
        scenes = list(generate_scenes(seed, TRAINED + HELD_OUT + TRUTH))
        self.scenes, self.truth = scenes[TRAINED : TRAINED + HELD_OUT], scenes[TRAINED + HELD_OUT :]
        self.keys = [f"{seed} held out {number}" for number in range(HELD_OUT)]
        self.seen = [blurred(scene, key) for scene, key in zip(self.scenes, self.keys, strict=True)]
        fresh = Regime("strict", "full", guards=False, tokens=regime.tokens)
        self.fresh = [prompt.rubric for prompt in prompts_of(self.scenes, policy, fresh, seed + 7)]
        self.same = [prompt for prompt in prompts_of(self.scenes, policy, regime, seed + 7) if prompt.rubric.criteria]
        self.base = self._draw(policy, self.scenes, -1)
        self.regime = regime

    def _draw(self, policy: Policy, scenes: Sequence[Scene], step: int) -> list[str]:
        odds, rng = policy.odds(), random.Random(f"probe {step}")
        return [caption_of(odds, policy.see(scene), policy.tokens, rng)[0] for scene in scenes]

    def look(self, policy: Policy, step: int) -> Look:
        texts = self._draw(policy, self.scenes, step)
        truth = fmean(
            score_caption(scene, text).f1
            for scene, text in zip(self.truth, self._draw(policy, self.truth, step), strict=True)
        )
        by_scene = dict(zip(self.scenes, texts, strict=True))
        won = {"A": 1.0, "B": 0.0, "Tie": 0.5}
        rows = list(zip(self.scenes, self.keys, texts, self.base, strict=True))
        return Look(
            step,
            truth,
            {
                "oracle-like comparison": [
                    won[compare(scene, key, text, base, seed=step)[0]] for scene, key, text, base in rows
                ],
                "blurred comparison": [
                    blurred_comparison(seen, key, text, base)
                    for seen, (_, key, text, base) in zip(self.seen, rows, strict=True)
                ],
                "fresh criteria": [
                    other_credits(rubric, text) for rubric, text in zip(self.fresh, texts, strict=False)
                ],
                "same criteria": [other_credits(prompt.rubric, by_scene[prompt.scene]) for prompt in self.same],
                "reward": [reward_of(prompt, by_scene[prompt.scene], self.regime) for prompt in self.same],
            },
        )


def train(name: str, seed: int, *, steps: int = 100, look: int = LOOK) -> Run:
    """Train a policy in a regime."""
    regime, rng = REGIMES[name], random.Random(f"{name} {seed}")
    policy = Policy(regime, rng)
    rate = regime.rate * rng.uniform(0.6, 1.6)
    world = rng.randrange(10**6)
    prompts = prompts_of(list(generate_scenes(world, TRAINED)), policy, regime, world)
    probe, start = _Probe(policy, regime, world), policy.odds()
    looks, stats = [probe.look(policy, 0)], list[StepStats]()
    for step in range(1, steps + 1):
        odds = policy.odds()
        texts, rewards = _step(policy, prompts, regime, rate, rng)
        figures = step_stats(step, texts, [len(text.split()) for text in texts], rewards, group_size=GROUP)
        spreads = [pstdev(rewards[at : at + GROUP]) for at in range(0, len(rewards), GROUP)]
        more = {"drift": _divergence(odds, start), "reward spread": fmean(spreads)}
        stats.append(figures._replace(values={**figures.values, **more}))
        if step % look == 0:
            looks.append(probe.look(policy, step))
    return Run(name, seed, stats, looks)


def _step(
    policy: Policy, prompts: Sequence[Prompt], regime: Regime, rate: float, rng: random.Random
) -> tuple[list[str], list[float]]:
    """Make a step of GRPO; return its captions and their rewards."""
    odds = policy.odds()
    change: dict[str, list[float]] = {name: [0.0] * len(logits) for name, logits in policy.logits.items()}
    texts, rewards = list[str](), list[float]()
    for prompt in rng.sample(prompts, PROMPTS):
        seen = policy.see(prompt.scene)
        drawn = [caption_of(odds, seen, regime.tokens, rng) for _ in range(GROUP)]
        earned = [reward_of(prompt, text, regime) for text, _ in drawn]
        mean, deviation = fmean(earned), pstdev(earned) + 1e-4
        for reward, (_, surprise) in zip(earned, drawn, strict=True):
            for decision, parts in surprise.items():
                for at, part in enumerate(parts):
                    change[decision][at] += (reward - mean) / deviation * part
        texts += [text for text, _ in drawn]
        rewards += earned
    for decision, parts in change.items():
        policy.logits[decision] = [
            logit + rate * part / (PROMPTS * GROUP) for logit, part in zip(policy.logits[decision], parts, strict=True)
        ]
    return texts, rewards


CLAIMED: dict[str, Regime] = {
    "behavioural_rubric": Regime(coverage="full", tokens=24, start=(("praise", (0.15, 0.85)),)),
    "behavioural_likert": Regime("likert", tokens=24, start=(("praise", (0.15, 0.85)),)),
}
"""Arms of claims about mechanisms, which differ in the reward alone: a rubric, or a holistic rating that can be
flattered (RubiCap, section 4.1).
"""


def measured_policy(arm: str, seed: int, steps: int = 100) -> dict[str, dict[str, float | None]]:
    """Metric → held-out scene → value of a trained policy; all arms of a seed share start, sight and scenes."""
    regime, rng = CLAIMED[arm], random.Random(f"claims {seed}")
    policy, world = Policy(regime, rng), rng.randrange(10**6)
    scenes = list(generate_scenes(world, TRAINED + TRUTH))
    prompts = prompts_of(scenes[:TRAINED], policy, regime, world)
    for _ in range(steps):
        _step(policy, prompts, regime, regime.rate, rng)
    odds, held_out = policy.odds(), scenes[TRAINED:]
    captions = [caption_of(odds, policy.see(scene), regime.tokens, rng)[0] for scene in held_out]
    return {
        "oracle_f1": {
            str(at): score_caption(scene, text).f1
            for at, (scene, text) in enumerate(zip(held_out, captions, strict=True))
        },
        "praise": {str(at): float(PRAISE in text) for at, text in enumerate(captions)},
    }


def _divergence(odds: dict[str, list[float]], start: dict[str, list[float]]) -> float:
    """Kullback-Leibler divergence from the start, summed over decisions."""
    return sum(
        share * math.log(share / before)
        for name, shares in odds.items()
        for share, before in zip(shares, start[name], strict=True)
    )
