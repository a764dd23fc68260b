"""Stop of a training whose rollouts nobody can judge any more."""

from rubricworks.errors import UserError

PATIENCE = 3
"""Consecutive steps without anything to learn from, after which a training stops."""


class UnjudgedSteps:
    """Count of consecutive generations without a judged rollout."""

    def __init__(self) -> None:
        self._count = 0

    def update(self, step: int, judged: bool, generations: int) -> None:
        """Take one generation.

        Args:
            judged: some of its rollouts were judged.
            generations: generations of the whole training.
        Raises:
            UserError: none of the last few could be judged.
        """
        self._count = 0 if judged else self._count + 1
        if self._count == min(PATIENCE, generations):
            raise UserError(
                f"no rollout could be judged in the last {self._count} steps (up to step {step}); check the "
                "judge; training continues from its last checkpoint"
            )
