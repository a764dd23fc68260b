"""Model calls of a RubricRL run, estimated from its recipe."""

import math
from collections.abc import Iterator

from rubricworks.llm.usage import IMAGE_TOKENS, TOKENS_PER_CRITERION
from rubricworks.methods.rubricrl.recipe import RubricrlRecipe
from rubricworks.methods.rubricrl.stages.train_generator import AUDIT_IMAGES
from rubricworks.recipe.estimate import CallEstimate, scoring_calls

_INSTRUCTIONS = 450
"""Tokens of a prompt's fixed text."""
_PROMPT = 60
AUDIT_PROBES = 7
"""Gradings of one rubric by changed images."""
_SCORE = 10
"""Tokens of a scoring endpoint's answer."""


def estimate_calls(recipe: RubricrlRecipe, prompts: int) -> Iterator[CallEstimate]:
    held_out = recipe.data.held_out if recipe.data.held_out_source else min(recipe.data.held_out, prompts)
    train = max(prompts - (0 if recipe.data.held_out_source else held_out), 1)
    if recipe.data.max_train is not None:
        train = min(train, recipe.data.max_train)
    images = held_out * recipe.data.images_per_prompt
    rubric, policy = recipe.rubric, recipe.policy
    written = train + held_out
    per_query = rubric.per_query * TOKENS_PER_CRITERION
    yield CallEstimate(
        "write_prompt_rubrics", "rubric", rubric.writer, written * rubric.queries, _INSTRUCTIONS + _PROMPT, per_query
    )
    pool = rubric.queries * per_query
    yield CallEstimate("write_prompt_rubrics", "selection", rubric.writer, written, _INSTRUCTIONS + pool, 60)
    steps = policy.steps or math.ceil((policy.epochs or 0) * train / policy.prompts_per_step)
    # `refill` may draw more prompts, as many as have no signal.
    rollouts = steps * policy.prompts_per_step * policy.group_size
    if policy.method != "rl":
        rollouts = train * policy.group_size if policy.method == "best_of_n" else 0
    if policy.reward and rollouts:
        for endpoint in policy.reward.endpoints:
            yield CallEstimate("train_generator", "reward", endpoint, rollouts, _PROMPT + IMAGE_TOKENS, _SCORE)
    elif rollouts:
        one = policy.call_per == "criterion"
        calls, criteria = (rollouts * rubric.select, 1) if one else (rollouts, rubric.select)
        tokens_in = _INSTRUCTIONS + _PROMPT + IMAGE_TOKENS + criteria * TOKENS_PER_CRITERION
        tokens_out = criteria * TOKENS_PER_CRITERION
        for judge in (policy.judge, *policy.more_judges):
            yield CallEstimate("train_generator", "judge", judge, calls, tokens_in, tokens_out)
        if gate := policy.audit:
            probes = min(gate.sample, train) * (AUDIT_PROBES + AUDIT_IMAGES) * (rubric.select if one else 1)
            for judge in gate.judges or (policy.judge, *policy.more_judges):
                yield CallEstimate("train_generator", "audit", judge, probes, tokens_in, tokens_out)
    yield from scoring_calls(recipe.evaluation, images)
