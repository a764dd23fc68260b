"""Model calls of a RubiCap run, estimated from its recipe."""

from collections.abc import Iterator
from dataclasses import replace

from rubricworks.llm.usage import grading_calls
from rubricworks.methods.rubicap.recipe import RubicapRecipe
from rubricworks.policy.algorithms.grpo import Grpo
from rubricworks.policy.judges import grading_plan
from rubricworks.policy.rewards.pitfall_refresh import SHOWN
from rubricworks.policy.rewards.reward import TrainingSize
from rubricworks.policy.rewards.rubric import RubricReward
from rubricworks.recipe.estimate import CallEstimate, audit_calls, policy_calls, rubric_calls, scoring_calls


def estimate_calls(recipe: RubicapRecipe, images: int) -> Iterator[CallEstimate]:
    held_out = min(recipe.data.held_out, images)
    train = max(images - held_out - recipe.data.warm_up, 1)
    if recipe.data.max_train is not None:
        train = min(train, recipe.data.max_train)
    synthesis = rubric_calls(recipe.committee, recipe.student, recipe.rubric, train + held_out)
    yield from synthesis
    if gate := recipe.rubric_gate():
        yield from audit_calls("synthesize_rubrics", gate, train)
    size = TrainingSize(samples=train, held_out=held_out)
    yield from policy_calls("train_policy", recipe.policy, size, recipe.committee.teachers)
    yield from _refresh_calls(recipe, train, synthesis[-1])
    yield from scoring_calls(recipe.evaluation, held_out)


def _refresh_calls(recipe: RubicapRecipe, train: int, writing: CallEstimate) -> Iterator[CallEstimate]:
    """Calls that rewrite the rubrics during training, or add pitfalls to them.

    Args:
        writing: calls that write them before.
    """
    reward, algorithm = recipe.policy.reward, recipe.policy.algorithm
    if not isinstance(reward, RubricReward) or not reward.refresh or not isinstance(algorithm, Grpo):
        return
    refreshes = max(algorithm.steps_on(train) - 1, 0) // reward.refresh.every
    yield replace(writing, stage="train_policy", count=refreshes * train)
    if pitfalls := reward.refresh.pitfalls:  # at most: captions that repeat are graded once
        captions = pitfalls.draws + SHOWN + len(recipe.committee.teachers) * recipe.committee.captions_each
        calls = grading_calls(refreshes * train * captions, reward.call_per)
        yield from (CallEstimate.of("train_policy", planned) for planned in grading_plan(reward.judge, *calls))
