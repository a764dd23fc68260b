"""Model calls of a BalCapRL run, estimated from its recipe."""

import math
from collections.abc import Iterator

from rubricworks.methods.balcaprl.recipe import BalcaprlRecipe
from rubricworks.methods.balcaprl.stages.evaluate_captions import Config as EvaluateConfig
from rubricworks.methods.balcaprl.stages.train_balcaprl import Config as TrainConfig
from rubricworks.recipe.estimate import (
    CAPTION_TOKENS,
    GRADING_IN,
    GRADING_OUT,
    IMAGE_TOKENS,
    CallEstimate,
    rubric_calls,
)

QUESTIONS_PER_EXAM = 5
EXAM_TOKENS = 600
GUIDE_TOKENS = 900
"""Tokens of the judge's instructions: two tests, with examples."""
ASSERTION_TOKENS = 40
"""Tokens of one assertion as JSON, with its reason."""
ASSERTIONS_PER_CAPTION = 25


def estimate_calls(recipe: BalcaprlRecipe, images: int) -> Iterator[CallEstimate]:
    held_out = min(recipe.data.held_out, images)
    train = max(images - held_out - recipe.data.warm_up, 1)
    if recipe.data.max_train is not None:
        train = min(train, recipe.data.max_train)
    split_sizes = {"train": train, "held_out": held_out}
    if recipe.recap.captioner:
        references = sum(split_sizes[split] for split in recipe.recap.splits)
        yield CallEstimate("recap", "recaption", recipe.recap.captioner, references, IMAGE_TOKENS, CAPTION_TOKENS)
    exams = sum(split_sizes[split] for split in recipe.exams.splits)
    yield CallEstimate("write_exams", "exam", recipe.exams.writer, exams, IMAGE_TOKENS + 400, EXAM_TOKENS)
    rubrics, makes = recipe.rubrics, "peer_rubrics"
    if rubrics.committee and rubrics.rubric:
        yield from rubric_calls(
            rubrics.committee, rubrics.student, rubrics.rubric, train, caption_stage=makes, rubric_stage=makes
        )
    yield from _training(recipe, train)
    yield from _evaluation(recipe, held_out)


def _training(recipe: BalcaprlRecipe, train: int) -> Iterator[CallEstimate]:
    policy = recipe.policy
    if policy.method == "sft":
        return
    steps = policy.steps or math.ceil((policy.epochs or 0) * train / policy.prompts_per_step)
    rollouts = steps * policy.prompts_per_step * policy.group_size
    if policy.reward == "questions":
        count = rollouts * QUESTIONS_PER_EXAM
        yield CallEstimate("train_balcaprl", "exam", policy.judge, count, CAPTION_TOKENS + 150, 2)
        return
    if policy.reward == "rubrics":
        yield CallEstimate("train_balcaprl", "judge", policy.judge, rollouts, GRADING_IN, GRADING_OUT)
        return
    yield from _assertions("train_balcaprl", recipe.policy, rollouts)


def _evaluation(recipe: BalcaprlRecipe, held_out: int) -> Iterator[CallEstimate]:
    evaluation, captions = recipe.evaluation, 2 * held_out
    yield from _assertions("evaluate_captions", evaluation, captions)
    list_tokens = ASSERTIONS_PER_CAPTION * ASSERTION_TOKENS
    if evaluation.fact_judge:
        # Four calls: facts of the caption, facts of the reference, their matching, the check against the image.
        prompt = GUIDE_TOKENS + (2 * CAPTION_TOKENS + 2 * list_tokens + IMAGE_TOKENS) // 4
        yield CallEstimate("evaluate_captions", "facts", evaluation.fact_judge, 4 * captions, prompt, list_tokens)
    if evaluation.exam_taker:
        count = captions * QUESTIONS_PER_EXAM
        yield CallEstimate("evaluate_captions", "exam", evaluation.exam_taker, count, CAPTION_TOKENS + 150, 2)
    if evaluation.arena_judge:
        comparisons = held_out * (2 if evaluation.order == "both" else 1)
        prompt = IMAGE_TOKENS + 500 + 2 * CAPTION_TOKENS
        yield CallEstimate("evaluate_captions", "arena", evaluation.arena_judge, comparisons, prompt, 150)


def _assertions(stage: str, config: TrainConfig | EvaluateConfig, captions: int) -> Iterator[CallEstimate]:
    """One judge call per caption, with the image unless a verifier checks it in a second call."""
    list_tokens = 2 * ASSERTIONS_PER_CAPTION * ASSERTION_TOKENS
    prompt = GUIDE_TOKENS + 2 * CAPTION_TOKENS + (0 if config.verifier else IMAGE_TOKENS)
    yield CallEstimate(stage, "judge", config.judge, captions, prompt, list_tokens)
    if config.verifier:
        prompt = GUIDE_TOKENS + IMAGE_TOKENS + list_tokens // 2
        yield CallEstimate(stage, "verifier", config.verifier, captions, prompt, list_tokens // 2)
