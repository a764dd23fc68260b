"""The calls of a RubiCap run."""

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
    of_rubrics = rubric_calls(recipe.committee, recipe.student, recipe.rubric, train + held_out)
    yield from of_rubrics
    policy = recipe.policy
    steps = policy.steps or math.ceil((policy.epochs or 0) * train / policy.prompts_per_step)
    rollouts = steps * policy.prompts_per_step * policy.group_size
    for judge in (policy.judge, *policy.more_judges):
        if policy.call_per == "response":
            yield CallEstimate("train_policy", "judge", judge, rollouts, GRADING_IN, GRADING_OUT)
        else:
            each_in = GRADING_IN - (CRITERIA_PER_RUBRIC - 1) * TOKENS_PER_CRITERION
            yield CallEstimate(
                "train_policy", "judge", judge, rollouts * CRITERIA_PER_RUBRIC, each_in, TOKENS_PER_CRITERION
            )
    if recipe.rubric.refresh_every:
        rewritten = (max(steps - 1, 0) // recipe.rubric.refresh_every) * min(
            train, recipe.rubric.refresh_every * policy.prompts_per_step
        )
        yield replace(of_rubrics[-1], stage="train_policy", count=rewritten)
    pair_tokens = IMAGE_TOKENS + 500 + 2 * CAPTION_TOKENS
    if policy.probe and policy.probe_every:
        probed = (steps - 1) // policy.probe_every * min(policy.probe_samples, held_out)
        yield CallEstimate("train_policy", "probe", policy.probe, probed, pair_tokens, 150)
    evaluation = recipe.evaluation
    graded = held_out * 2 * len(evaluation.decodings)
    yield CallEstimate("evaluate", "judge", evaluation.judge, graded, GRADING_IN, GRADING_OUT)
    compared = held_out * len(evaluation.decodings) * (2 if evaluation.order == "both" else 1)
    yield CallEstimate("evaluate", "pairwise", evaluation.pairwise_judge, compared, pair_tokens, 150)
