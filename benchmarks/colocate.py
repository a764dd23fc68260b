"""The quickstart's policy trained by rollouts of vLLM in the trainer's process, beside the one of a finished run.

    make test-vllm              # its environment has vLLM for CPU cores
    make demo                   # or an earlier run of the quickstart
    make bench-colocate FINISHED=runs/quickstart-…

Samples, rubrics and the student after its warm-up are the run's own; the policy is trained and scored by the same
configurations, but for `policy.algorithm.rollouts.vllm`. Simulated images and judges, a real student.
"""

import argparse
import tempfile
from pathlib import Path

import pytest
from vllm_on_cpu import make_vllm_fit_cpu

from rubricworks.cli.world import serve_world
from rubricworks.evaluation.scoreboard import read_scoreboard
from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.runtime.launch import launch
from rubricworks.training.policy import grpo

_COLOCATED = ("policy.algorithm.rollouts.vllm.mode=colocate", "policy.algorithm.rollouts.vllm.max_model_length=128")
_FIGURES = {"win rate": "arena_win", "rubric reward": "rubric_reward", "oracle F1": "oracle_f1"}


def colocated_run(finished: Path, out: Path, *changes: str) -> Path:
    """Train and score the policy; return the folder of its scores."""
    recipe = load_recipe(recipe_path("quickstart"), (*_COLOCATED, *changes))
    configs = recipe.stage_json()
    inputs = {
        "samples": str(finished / "prepare"),
        "rubrics": str(finished / "synthesize_rubrics"),
        "model": str(finished / "warm_up"),
    }
    assert recipe.world is not None
    with pytest.MonkeyPatch.context() as patch, serve_world(recipe.world, out / "world", [finished / "world"]):
        make_vllm_fit_cpu(patch)
        patch.setattr(grpo, "check_vllm", lambda options: None)  # it wants a GPU
        policy = launch("train_policy", configs["train_policy"], str(out), inputs)
        return Path(launch("score", configs["score"], str(out), {**inputs, "policy": policy}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="folder of a finished quickstart")
    parser.add_argument("--set", dest="changes", action="append", default=[], help="change, such as seed=2")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scores = colocated_run(arguments.run.resolve(), Path(folder) / "colocated", *arguments.changes)
        boards = {"Transformers": read_scoreboard(arguments.run / "score"), "vLLM": read_scoreboard(scores)}
    print(f"{'policy, by rollouts of':<24}" + "".join(f"{name:<28}" for name in boards))
    for title, figure in _FIGURES.items():
        means = [board.mean("policy", figure) if board else None for board in boards.values()]
        cells = [f"{mean.value:.3f} [{mean.low:.3f}, {mean.high:.3f}]" if mean else "-" for mean in means]
        print(f"{title:<24}" + "".join(f"{cell:<28}" for cell in cells))


if __name__ == "__main__":
    main()
