"""What a recipe will do, before it does it: stages, calls, tokens, dollars, GPU memory.

Calls are counted from the recipe; tokens are estimates by the rules in `calls`, dollars follow from the endpoints'
prices.
"""

from pathlib import Path

from rubricworks.plan.balcaprl import balcaprl_calls
from rubricworks.plan.calls import Calls
from rubricworks.plan.rlr3 import rlr3_calls
from rubricworks.plan.rubicap import rubicap_calls
from rubricworks.recipe import BalcaprlRecipe, Recipe, Rlr3Recipe, RubicapRecipe

__all__ = ["Calls", "plan_calls", "training_bytes"]

BYTES_PER_PARAMETER = {"full": 18, "lora": 3}
"""Training memory without activations: bf16 weights and gradients, fp32 master weights and Adam; LoRA: weights."""


def plan_calls(recipe: Recipe, items: int) -> list[Calls]:
    """Every kind of call that the run will make.

    Args:
        items: images in the source, or questions.
    """
    if isinstance(recipe, RubicapRecipe):
        return list(rubicap_calls(recipe, items))
    if isinstance(recipe, BalcaprlRecipe):
        return list(balcaprl_calls(recipe, items))
    assert isinstance(recipe, Rlr3Recipe)
    return list(rlr3_calls(recipe, items))


def training_bytes(recipe: RubicapRecipe | Rlr3Recipe | BalcaprlRecipe) -> int | None:
    """GPU memory for weights, gradients and optimiser of the student, None when its size is not known here."""
    parameters = _parameters(recipe.warm_up.student)
    if parameters is None:
        return None
    return parameters * BYTES_PER_PARAMETER["lora" if recipe.policy.lora else "full"]


def _parameters(student: str) -> int | None:
    if student == "tiny":
        return 700_000
    weights = list(Path(student).glob("*.safetensors"))
    if weights:
        return sum(path.stat().st_size for path in weights) // 2
    for part in reversed(student.replace("_", "-").split("-")):
        if part[:-1].replace(".", "", 1).isdigit() and part[-1] in "Bb":
            return int(float(part[:-1]) * 1e9)
    return None
