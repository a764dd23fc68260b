"""The calls of a BalCapRL run."""

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
"""The judge's instructions: its two tests, with examples."""
ASSERTION_TOKENS = 40
"""One assertion as JSON, with its reason."""
ASSERTIONS_PER_CAPTION = 25


def estimate_calls(recipe: BalcaprlRecipe, images: int) -> Iterator[CallEstimate]:
    held_out = min(recipe.data.held_out, images)
    train = max(images - held_out - recipe.data.warm_up, 1)
    if recipe.data.max_train is not None:
        train = min(train, recipe.data.max_train)
    of_split = {"train": train, "held_out": held_out}
    if recipe.recap.captioner:
        rewritten = sum(of_split[split] for split in recipe.recap.splits)
        yield CallEstimate("recap", "recaption", recipe.recap.captioner, rewritten, IMAGE_TOKENS, CAPTION_TOKENS)
    examined = sum(of_split[split] for split in recipe.exams.splits)
    yield CallEstimate("write_exams", "exam", recipe.exams.writer, examined, IMAGE_TOKENS + 400, EXAM_TOKENS)
    rubrics, makes = recipe.rubrics, "peer_rubrics"
    if rubrics.committee and rubrics.rubric:
        yield from rubric_calls(
            rubrics.committee, rubrics.student, rubrics.rubric, train, describing=makes, writing=makes
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
    listed = ASSERTIONS_PER_CAPTION * ASSERTION_TOKENS
    if evaluation.fact_judge:
        # The facts of the caption and of the reference, their matching, and the check against the image.
        read = GUIDE_TOKENS + (2 * CAPTION_TOKENS + 2 * listed + IMAGE_TOKENS) // 4
        yield CallEstimate("evaluate_captions", "facts", evaluation.fact_judge, 4 * captions, read, listed)
    if evaluation.exam_taker:
        count = captions * QUESTIONS_PER_EXAM
        yield CallEstimate("evaluate_captions", "exam", evaluation.exam_taker, count, CAPTION_TOKENS + 150, 2)
    if evaluation.arena_judge:
        compared = held_out * (2 if evaluation.order == "both" else 1)
        read = IMAGE_TOKENS + 500 + 2 * CAPTION_TOKENS
        yield CallEstimate("evaluate_captions", "arena", evaluation.arena_judge, compared, read, 150)


def _assertions(stage: str, config: TrainConfig | EvaluateConfig, captions: int) -> Iterator[CallEstimate]:
    """One call of the judge for each caption, which sees the image unless a verifier does so apart."""
    listed = 2 * ASSERTIONS_PER_CAPTION * ASSERTION_TOKENS
    read = GUIDE_TOKENS + 2 * CAPTION_TOKENS
    yield CallEstimate(stage, "judge", config.judge, captions, read + (0 if config.verifier else IMAGE_TOKENS), listed)
    if config.verifier:
        yield CallEstimate(
            stage, "verifier", config.verifier, captions, GUIDE_TOKENS + IMAGE_TOKENS + listed // 2, listed // 2
        )
