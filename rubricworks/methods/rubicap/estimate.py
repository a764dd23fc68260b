"""Model calls of a RubiCap run, estimated from its recipe."""

from collections.abc import Iterator
from dataclasses import replace

from rubricworks.llm.token_estimates import COMPARISON_IN, COMPARISON_OUT, grading_calls
from rubricworks.methods.rubicap.recipe import RubicapRecipe
from rubricworks.recipe.estimate import CallEstimate, rubric_calls, scoring_calls


def estimate_calls(recipe: RubicapRecipe, images: int) -> Iterator[CallEstimate]:
    held_out = min(recipe.data.held_out, images)
    train = max(images - held_out - recipe.data.warm_up, 1)
    if recipe.data.max_train is not None:
        train = min(train, recipe.data.max_train)
    synthesis = rubric_calls(recipe.committee, recipe.student, recipe.rubric, train + held_out)
    yield from synthesis
    policy = recipe.policy
    steps = policy.steps_on(train)
    rollouts = policy.rollouts_on(train)
    for judge in (policy.judge, *policy.more_judges):
        yield CallEstimate("train_policy", "judge", judge, *grading_calls(rollouts, policy.call_per))
    if recipe.rubric.refresh_every:
        rewrites = (max(steps - 1, 0) // recipe.rubric.refresh_every) * min(
            train, recipe.rubric.refresh_every * policy.prompts_per_step
        )
        yield replace(synthesis[-1], stage="train_policy", count=rewrites)
    if policy.probe and policy.probe_every:
        probes = (steps - 1) // policy.probe_every * min(policy.probe_samples, held_out)
        yield CallEstimate("train_policy", "probe", policy.probe, probes, COMPARISON_IN, COMPARISON_OUT)
    yield from scoring_calls(recipe.evaluation, held_out)
