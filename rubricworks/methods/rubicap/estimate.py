"""Model calls of a RubiCap run, estimated from its recipe."""

import math
from collections.abc import Iterator
from dataclasses import replace

from rubricworks.methods.rubicap.recipe import RubicapRecipe
from rubricworks.recipe.estimate import (
    CAPTION_TOKENS,
    CRITERIA_PER_RUBRIC,
    GRADING_IN,
    GRADING_OUT,
    IMAGE_TOKENS,
    TOKENS_PER_CRITERION,
    CallEstimate,
    rubric_calls,
)


def estimate_calls(recipe: RubicapRecipe, images: int) -> Iterator[CallEstimate]:
    held_out = min(recipe.data.held_out, images)
    train = max(images - held_out - recipe.data.warm_up, 1)
    if recipe.data.max_train is not None:
        train = min(train, recipe.data.max_train)
    synthesis = rubric_calls(recipe.committee, recipe.student, recipe.rubric, train + held_out)
    yield from synthesis
    policy = recipe.policy
    steps = policy.steps or math.ceil((policy.epochs or 0) * train / policy.prompts_per_step)
    rollouts = steps * policy.prompts_per_step * policy.group_size
    for judge in (policy.judge, *policy.more_judges):
        if policy.call_per == "response":
            yield CallEstimate("train_policy", "judge", judge, rollouts, GRADING_IN, GRADING_OUT)
        else:
            input_tokens = GRADING_IN - (CRITERIA_PER_RUBRIC - 1) * TOKENS_PER_CRITERION
            yield CallEstimate(
                "train_policy", "judge", judge, rollouts * CRITERIA_PER_RUBRIC, input_tokens, TOKENS_PER_CRITERION
            )
    if recipe.rubric.refresh_every:
        rewrites = (max(steps - 1, 0) // recipe.rubric.refresh_every) * min(
            train, recipe.rubric.refresh_every * policy.prompts_per_step
        )
        yield replace(synthesis[-1], stage="train_policy", count=rewrites)
    pair_tokens = IMAGE_TOKENS + 500 + 2 * CAPTION_TOKENS
    if policy.probe and policy.probe_every:
        probes = (steps - 1) // policy.probe_every * min(policy.probe_samples, held_out)
        yield CallEstimate("train_policy", "probe", policy.probe, probes, pair_tokens, 150)
    evaluation = recipe.evaluation
    gradings = held_out * 2 * len(evaluation.decodings)
    yield CallEstimate("evaluate", "judge", evaluation.judge, gradings, GRADING_IN, GRADING_OUT)
    comparisons = held_out * len(evaluation.decodings) * (2 if evaluation.order == "both" else 1)
    yield CallEstimate("evaluate", "pairwise", evaluation.pairwise_judge, comparisons, pair_tokens, 150)
