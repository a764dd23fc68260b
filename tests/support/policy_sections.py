"""Policy sections of recipes from flat options, for tests that write recipes."""

from typing import Any

from training_configs import nested

from rubricworks.policy.algorithms.grpo import Grpo


def rubric_policy(judge: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Section `policy:` of a training by GRPO on rubric rewards.

    Args:
        options: of the algorithm.
    """
    algorithm = nested(Grpo, {"type": "grpo", **options})
    return {
        "reward": {"type": "rubric", "judge": judge},
        "algorithm": algorithm.model_dump(mode="json", exclude_unset=True),
    }
