"""verl under the cases: its reward manager, the row that its agent loop makes of a score, and its advantages.

What lies between them, ray and the generation, is left out. Written against verl 0.9.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from omegaconf import OmegaConf
from tensordict import TensorDict
from verl import DataProto
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.core_algos import AdvantageEstimator
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.trainer.ppo.reward import extract_reward, load_reward_manager

from rubricworks.adapters.conformance.cases import Batch, number
from rubricworks.adapters.conformance.findings import Outcome, line_of

_CONFIG = {
    "reward": {
        "custom_reward_function": {"path": f"pkg://{__name__}", "name": "compute_score"},
        "sandbox_fusion": {"url": None},
        "reward_manager": {"source": "register", "name": "naive", "module": {"path": None}},
    }
}


async def compute_score(data_source: str, solution_str: str, ground_truth: str, extra_info: Any, **options: Any) -> Any:
    """Reward function as verl loads it: returns, or raises, what the row holds."""
    return extra_info["score"]()


class _Tokenizer:
    """Stand-in that decodes every response alike."""

    def decode(self, ids: Any, skip_special_tokens: bool = True) -> str:
        return "a red circle"


class VerlTrainer:
    """verl's advantages of a batch."""

    package = "verl"
    left_out = Outcome.MASKED

    def advantages(self, batch: Batch) -> Sequence[float]:
        """Return the advantages that verl computes from the scores of a custom reward function."""
        columns = len(batch.rewards_NK[0])
        if columns > 1 and batch.aggregation == "sum":
            raise NotImplementedError("a reward function of verl returns one score; a sum of several is its own")
        manager = load_reward_manager(OmegaConf.create(_CONFIG), _Tokenizer())
        results = [manager.loop.run_until_complete(_score(manager, row)) for row in batch.rewards_NK]
        rows = [
            AgentLoopOutput(
                prompt_ids=[1],
                response_ids=[2, 3],
                response_mask=[1, 1],
                metrics=AgentLoopMetrics(),
                reward_score=result["reward_score"],
            ).as_dict()
            for result in results
        ]
        names = [
            name for name in ("prompts", "responses", "response_mask", "rm_scores") if all(name in row for row in rows)
        ]
        tensors = {name: torch.stack([row[name] for row in rows]) for name in names}
        tensors["attention_mask"] = torch.ones(len(rows), 3, dtype=torch.int64)
        data = DataProto(batch=TensorDict(tensors, batch_size=len(rows)))
        data.batch["token_level_rewards"], _ = extract_reward(data)
        data.non_tensor_batch["uid"] = np.array([f"group-{row // batch.group_size}" for row in range(len(rows))])
        if columns > 1:
            keys = [f"reward_{column}" for column in range(columns)]
            for key in keys:
                data.non_tensor_batch[key] = np.array([result["reward_extra_info"][key] for result in results])
            config = OmegaConf.create({"gdpo_reward_keys": keys})
            data = compute_advantage(data, AdvantageEstimator.GDPO, config=config)
        else:
            data = compute_advantage(data, AdvantageEstimator.GRPO)
        advantages: list[float] = data.batch["advantages"][:, -1].tolist()
        return advantages

    def line(self, batch: Batch) -> str:
        """Line that takes the mean of a group."""
        return line_of(core_algos.compute_grpo_outcome_advantage, "torch.mean(scores_tensor)")


async def _score(manager: Any, cells: Sequence[Any]) -> dict[str, object]:
    """Result of the manager for one response, whose reward function returns or raises what the cells say."""

    def score() -> float | Mapping[str, float | None] | None:
        values = [number(cell) for cell in cells]
        if len(values) == 1:
            return values[0]
        return {"score": values[0], **{f"reward_{column}": value for column, value in enumerate(values)}}

    tensors = {"responses": [[2, 3]], "attention_mask": [[1, 1, 1]]}
    data = DataProto(batch=TensorDict({name: torch.tensor(tensor) for name, tensor in tensors.items()}, batch_size=1))
    columns = {"data_source": "cases", "reward_model": {"ground_truth": ""}, "extra_info": {"score": score}}
    for name, value in columns.items():
        cell = np.empty(1, dtype=object)
        cell[0] = value
        data.non_tensor_batch[name] = cell
    result: dict[str, object] = await manager.run_single(data)
    return result
