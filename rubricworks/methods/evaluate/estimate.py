"""Model calls of an evaluation, estimated from its recipe."""

from collections.abc import Iterator

from rubricworks.evaluation.scorers.scorer import Workload
from rubricworks.llm.usage import CAPTION_TOKENS, IMAGE_TOKENS
from rubricworks.methods.evaluate.recipe import EvaluateRecipe
from rubricworks.recipe.estimate import CallEstimate


def estimate_calls(recipe: EvaluateRecipe, items: int) -> Iterator[CallEstimate]:
    config = recipe.evaluation
    scored = items if config.splits is None else min(recipe.data.held_out, items)
    for source in config.models.values():
        if source.endpoint:
            yield CallEstimate("score", "response", source.endpoint, scored, IMAGE_TOKENS, CAPTION_TOKENS)
    models = len(config.models)
    work = Workload(responses=models * scored, compared=(models - 1) * scored)
    for scorer in config.scorers:
        for calls in scorer.plan(work):
            yield CallEstimate("score", calls.purpose, calls.endpoint, calls.count, calls.tokens_in, calls.tokens_out)
