"""Model calls of a RubricRL run, estimated from its recipe."""

from collections.abc import Iterator

from rubricworks.llm.usage import TOKENS_PER_CRITERION
from rubricworks.methods.rubricrl.recipe import RubricrlRecipe
from rubricworks.policy.rewards.reward import TrainingSize
from rubricworks.recipe.estimate import CallEstimate, policy_calls, scoring_calls

_INSTRUCTIONS = 450
"""Tokens of a prompt's fixed text."""
_PROMPT = 60


def estimate_calls(recipe: RubricrlRecipe, prompts: int) -> Iterator[CallEstimate]:
    held_out = recipe.data.held_out if recipe.data.held_out_source else min(recipe.data.held_out, prompts)
    train = max(prompts - (0 if recipe.data.held_out_source else held_out), 1)
    if recipe.data.max_train is not None:
        train = min(train, recipe.data.max_train)
    images = held_out * recipe.data.images_per_prompt
    rubric = recipe.rubric
    written = train + held_out
    per_query = rubric.per_query * TOKENS_PER_CRITERION
    yield CallEstimate(
        "write_prompt_rubrics", "rubric", rubric.writer, written * rubric.queries, _INSTRUCTIONS + _PROMPT, per_query
    )
    pool = rubric.queries * per_query
    yield CallEstimate("write_prompt_rubrics", "selection", rubric.writer, written, _INSTRUCTIONS + pool, 60)
    size = TrainingSize(samples=train, held_out=held_out, criteria=rubric.select)
    yield from policy_calls("train_generator", recipe.policy, size)
    yield from scoring_calls(recipe.evaluation, images)
