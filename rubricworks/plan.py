"""What a recipe will do, before it does it: stages, calls, tokens, dollars, GPU memory.

Calls are counted from the recipe; tokens are estimates by the rules below, dollars follow from the endpoints' prices.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rubricworks.llm import Endpoint
from rubricworks.recipe import Recipe

TOKENS_PER_CRITERION = 60
CRITERIA_PER_RUBRIC = 8
CAPTION_TOKENS = 300
IMAGE_TOKENS = 1_000
"""Rules of thumb for an estimate: a 1024-pixel image, a detailed caption, a rubric of the paper's kind."""

BYTES_PER_PARAMETER = {"full": 18, "lora": 3}
"""Training memory without activations: bf16 weights and gradients, fp32 master weights and Adam; LoRA: weights."""


@dataclass(frozen=True)
class Calls:
    """Requests of one kind to one model."""

    stage: str
    purpose: str
    endpoint: Endpoint
    count: int
    tokens_in: int
    """Per call."""
    tokens_out: int

    @property
    def dollars(self) -> float:
        return self.endpoint.cost(self.count * self.tokens_in, self.count * self.tokens_out)


def plan_calls(recipe: Recipe, images: int) -> list[Calls]:
    """Every kind of call that the run will make.

    Args:
        images: in the source.
    """
    return list(_calls(recipe, images))


def _calls(recipe: Recipe, images: int) -> Iterator[Calls]:
    held_out = min(recipe.data.held_out, images)
    train = max(images - held_out - recipe.data.warm_up, 1)
    if recipe.data.max_train is not None:
        train = min(train, recipe.data.max_train)
    samples = train + held_out
    committee = recipe.committee
    for teacher in committee.teachers:
        count = samples * committee.captions_each
        yield Calls("caption_committee", "caption", teacher, count, IMAGE_TOKENS, CAPTION_TOKENS)
    candidates = len(committee.teachers) * committee.captions_each + recipe.student.captions_each
    read = IMAGE_TOKENS + 1_000 + candidates * CAPTION_TOKENS
    rubric_tokens = CRITERIA_PER_RUBRIC * 3 * TOKENS_PER_CRITERION
    yield Calls("synthesize_rubrics", "rubric", recipe.rubric.writer, samples, read, rubric_tokens)
    policy = recipe.policy
    steps = policy.steps or math.ceil((policy.epochs or 0) * train / policy.prompts_per_step)
    rollouts = steps * policy.prompts_per_step * policy.group_size
    grading_in = 500 + CAPTION_TOKENS + CRITERIA_PER_RUBRIC * TOKENS_PER_CRITERION
    grading_out = CRITERIA_PER_RUBRIC * TOKENS_PER_CRITERION
    for judge in (policy.judge, *policy.more_judges):
        if policy.call_per == "response":
            yield Calls("train_policy", "judge", judge, rollouts, grading_in, grading_out)
        else:
            each_in = grading_in - (CRITERIA_PER_RUBRIC - 1) * TOKENS_PER_CRITERION
            yield Calls("train_policy", "judge", judge, rollouts * CRITERIA_PER_RUBRIC, each_in, TOKENS_PER_CRITERION)
    if recipe.rubric.refresh_every:
        rewritten = (max(steps - 1, 0) // recipe.rubric.refresh_every) * min(
            train, recipe.rubric.refresh_every * policy.prompts_per_step
        )
        yield Calls("train_policy", "rubric", recipe.rubric.writer, rewritten, read, rubric_tokens)
    pair_tokens = IMAGE_TOKENS + 500 + 2 * CAPTION_TOKENS
    if policy.probe and policy.probe_every:
        probed = (steps - 1) // policy.probe_every * min(policy.probe_samples, held_out)
        yield Calls("train_policy", "probe", policy.probe, probed, pair_tokens, 150)
    evaluation = recipe.evaluation
    graded = held_out * 2 * len(evaluation.decodings)
    yield Calls("evaluate", "judge", evaluation.judge, graded, grading_in, grading_out)
    compared = held_out * len(evaluation.decodings) * (2 if evaluation.order == "both" else 1)
    yield Calls("evaluate", "pairwise", evaluation.pairwise_judge, compared, pair_tokens, 150)


def training_bytes(recipe: Recipe) -> int | None:
    """GPU memory for weights, gradients and optimiser of the student, None when its size is not known here."""
    parameters = _parameters(recipe.warm_up.student)
    if parameters is None:
        return None
    return parameters * BYTES_PER_PARAMETER["lora" if recipe.policy.lora else "full"]


def _parameters(student: str) -> int | None:
    if student == "tiny":
        return 700_000
    weights = list(Path(student).glob("*.safetensors"))
    if weights:
        return sum(path.stat().st_size for path in weights) // 2
    for part in reversed(student.replace("_", "-").split("-")):
        if part[:-1].replace(".", "", 1).isdigit() and part[-1] in "Bb":
            return int(float(part[:-1]) * 1e9)
    return None
