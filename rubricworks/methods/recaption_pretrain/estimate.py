"""Model calls of a recaptioning run, estimated from its recipe."""

from collections.abc import Iterator

from rubricworks.llm.usage import CAPTION_TOKENS, IMAGE_TOKENS
from rubricworks.methods.recaption_pretrain.recipe import RecaptionPretrainRecipe
from rubricworks.recipe.estimate import CallEstimate, scoring_calls


def estimate_calls(recipe: RecaptionPretrainRecipe, images: int) -> Iterator[CallEstimate]:
    held_out = min(recipe.data.held_out, images)
    rest = max(images - held_out - recipe.data.warm_up, 0)
    train = rest if recipe.data.max_train is None else min(rest, recipe.data.max_train)
    for captioner in recipe.recaption.captioners:
        if captioner.endpoint:
            yield CallEstimate("recaption", "recaption", captioner.endpoint, train, IMAGE_TOKENS, CAPTION_TOKENS)
    yield from scoring_calls(recipe.evaluation, held_out)
