"""Function reward: a user-defined Python function (`adapters.functions`)."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from rubricworks.adapters.functions import FunctionReward as FunctionCall
from rubricworks.adapters.functions import load_reward, source_digest
from rubricworks.llm.usage import PlannedCalls
from rubricworks.policy.rewards.reward import PreparedReward, Reward, Training, TrainingSize
from rubricworks.policy.rubric_texts import compared_samples
from rubricworks.policy.step_tables import scorecard_table
from rubricworks.runtime.preflight_checks import Check, run_check


class FunctionReward(Reward):
    """A user-defined function of the responses and their samples."""

    type: Literal["function"]
    function: str = Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
    """`module:name`; the module is imported from the working directory or from installed packages."""

    def versions(self) -> dict[str, str]:
        return {"reward": source_digest(load_reward(self.function))}

    def checks(self) -> Iterator[Check]:
        yield run_check("reward", self._load)

    def _load(self) -> str:
        load_reward(self.function)
        return f"{self.function} can be called"

    def build(self, training: Training) -> PreparedReward:
        reward = FunctionCall(self.function, on_error=training.letters.add)
        return PreparedReward(functions=[reward], gradings=scorecard_table(), values=compared_samples(training.job))

    def estimate(self, size: TrainingSize) -> Iterator[PlannedCalls]:
        return iter(())

    def describe(self) -> str:
        return f"The reward is the function {self.function}."
