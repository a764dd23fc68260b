"""Model calls of a BalCapRL run, estimated from its recipe."""

from collections.abc import Iterator

from rubricworks.llm.usage import CAPTION_TOKENS, EXAM_TOKENS, IMAGE_TOKENS
from rubricworks.methods.balcaprl.recipe import BalcaprlRecipe
from rubricworks.policy.rewards.reward import TrainingSize
from rubricworks.recipe.estimate import CallEstimate, policy_calls, rubric_calls, scoring_calls


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
    yield from policy_calls("train_balcaprl", recipe.policy, TrainingSize(samples=train, held_out=held_out))
    yield from scoring_calls(recipe.evaluation, held_out)
