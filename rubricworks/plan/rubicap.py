"""The calls of a RubiCap run."""

import math
from collections.abc import Iterator

from rubricworks.plan.calls import CAPTION_TOKENS, CRITERIA_PER_RUBRIC, IMAGE_TOKENS, TOKENS_PER_CRITERION, Calls
from rubricworks.recipe import RubicapRecipe


def rubicap_calls(recipe: RubicapRecipe, images: int) -> Iterator[Calls]:
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
