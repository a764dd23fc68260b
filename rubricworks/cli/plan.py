"""The plan of a run as text, for `--dry-run`, and what there is to say of it before a run begins."""

import click

from rubricworks.cli.checks import items_of
from rubricworks.errors import UserError
from rubricworks.recipe import Recipe
from rubricworks.recipe.estimate import estimate_calls, over_budget, training_bytes


def plan_text(recipe: Recipe, items: int) -> str:
    """Stages, calls, tokens and dollars of a recipe on so many images, or questions."""
    if words := recipe.plan_in_words():
        return words
    calls = estimate_calls(recipe, items)
    held_out = min(recipe.data.held_out, items)
    lines = [f"{recipe.name}: {recipe.pipeline} on {items} {recipe.item}s, {held_out} of them held out", ""]
    lines.append(f"{'stage':<20} {'calls':>9}  {'for':<9} {'model':<34} {'tokens in':>11} {'out':>11} {'dollars':>9}")
    for stage in recipe.stage_configs():
        kinds = [call for call in calls if call.stage == stage]
        if not kinds:
            lines.append(f"{stage:<20} {'-':>9}")
        for call in kinds:
            tokens = f"{call.count * call.tokens_in:>11,} {call.count * call.tokens_out:>11,}"
            priced = f"{call.dollars:>9.2f}" if call.endpoint.price_in or call.endpoint.price_out else f"{'-':>9}"
            lines.append(f"{stage:<20} {call.count:>9,}  {call.purpose:<9} {call.endpoint.model:<34} {tokens} {priced}")
    free = {call.endpoint.model for call in calls if not call.endpoint.price_in and not call.endpoint.price_out}
    lines += ["", f"dollars in all: {sum(call.dollars for call in calls):.2f}, by the prices in the recipe"]
    if free and not recipe.world:
        lines[-1] += f"; {len(free)} model{'s have' if len(free) > 1 else ' has'} no price there and count nothing"
    if over := over_budget(recipe.budget, calls):
        lines.append(f"warning: {over}")
    lines.append("calls are counted, tokens estimated; repeated requests come from the cache")
    if recipe.base_model is not None:
        memory = training_bytes(recipe.base_model, lora=recipe.lora)
        size = "not known from its name" if memory is None else f"{memory / 2**30:.1f} GiB and its activations"
        lines.append(f"memory to train {recipe.base_model}: {size}")
    return "\n".join(lines)


def warn_of_budget(recipe: Recipe) -> None:
    """Say so where the plan exceeds the recipe's budget, or where nobody can tell.

    It is asked here and not by the stage `preflight`, which stands below recipes and knows no plan. A retraining has
    none: what it costs is found with the champion.
    """
    if (recipe.budget.tokens is None and recipe.budget.dollars is None) or recipe.plan_in_words():
        return
    try:
        over = over_budget(recipe.budget, estimate_calls(recipe, items_of(recipe)))
    except UserError as error:
        over = f"the plan was not held against the budget, since its samples cannot be counted here: {error}"
    if over:
        click.echo(f"warning: {over}", err=True)
