"""Model calls of a BalCapRL run, estimated from its recipe."""

from collections.abc import Iterator

from rubricworks.evaluation.scorers.b_capscore import BCapScorer
from rubricworks.evaluation.scorers.scorer import Workload
from rubricworks.llm.usage import (
    CAPTION_TOKENS,
    EXAM_TOKENS,
    IMAGE_TOKENS,
    QUESTIONS_PER_EXAM,
    grading_calls,
)
from rubricworks.methods.balcaprl.recipe import BalcaprlRecipe
from rubricworks.recipe.estimate import CallEstimate, rubric_calls, scoring_calls


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
    yield from scoring_calls(recipe.evaluation, held_out)


def _training(recipe: BalcaprlRecipe, train: int) -> Iterator[CallEstimate]:
    policy = recipe.policy
    if policy.method == "sft":
        return
    rollouts = policy.rollouts_on(train)
    if policy.reward == "questions":
        count = rollouts * QUESTIONS_PER_EXAM
        yield CallEstimate("train_balcaprl", "exam", policy.judge, count, CAPTION_TOKENS + 150, 2)
        return
    if policy.reward == "rubrics":
        yield CallEstimate("train_balcaprl", "judge", policy.judge, *grading_calls(rollouts, policy.call_per))
        return
    assertions = BCapScorer(judge=policy.judge, verifier=policy.verifier)
    for planned in assertions.plan(Workload(responses=rollouts, compared=0)):
        yield CallEstimate(
            "train_balcaprl", planned.purpose, planned.endpoint, planned.count, planned.tokens_in, planned.tokens_out
        )
