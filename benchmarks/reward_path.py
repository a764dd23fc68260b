"""Files of ours between the start of a policy training and its first reward: `python -m benchmarks.reward_path`.

A small quickstart is run up to its training, which is then started twice, the first time to have every module imported.
Of the second training, each file of the package is counted that is entered, in any thread, after `run` of the stage
`train_policy` began and before the reward function returned its first rewards. The scene world is a process of its own.
Files that are not in the walk of docs/architecture.md are marked.
"""

import json
import re
import shutil
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any

from rubricworks.adapters.trl import RubricReward
from rubricworks.cli.world import serve_world
from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.runtime.launch import launch
from rubricworks.runtime.stage_table import STAGES
from rubricworks.stages.training import train_policy

_ROOT = Path(__file__).parents[1]
_TRAINING = "train_policy"
_OUTPUTS = {
    "samples": "prepare",
    "model": "warm_up",
    "captions": "caption_committee",
    "student_captions": "caption_student",
    "rubrics": "synthesize_rubrics",
}
"""Input of a stage → stage that makes it."""
_SMALL = {
    "world.scenes": 24,
    "data.held_out": 4,
    "data.warm_up": 8,
    "warm_up.sft.steps": 2,
    "student.max_new_tokens": 16,
    "policy.algorithm.steps": 1,
    "policy.algorithm.rollouts": "{group_size: 2, prompts_per_step: 2, max_new_tokens: 16}",
}


class RewardPath:
    """Profile function that notes the files between `run` and the first rewards."""

    def __init__(self) -> None:
        self.files: dict[str, None] = {}
        self._state = "before"

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code is train_policy.run.__code__:
            self._state = "between"
        # A coroutine returns to its loop each time it waits; its own result is the list of rewards.
        if event == "return" and code is RubricReward.__call__.__code__ and isinstance(argument, list):
            self._state = "after"
        if event == "call" and self._state == "between":
            path = Path(code.co_filename)
            if path.is_relative_to(_ROOT / "rubricworks"):
                self.files.setdefault(str(path.relative_to(_ROOT)))


def reward_path(folder: Path) -> list[str]:
    """Train a small quickstart in a folder and return the files in the order in which they are entered."""
    settings = [f"{field}={value}" for field, value in _SMALL.items()]
    recipe = load_recipe(recipe_path("quickstart"), settings)
    assert recipe.world is not None
    path, configs = RewardPath(), recipe.stage_json()

    def start(stage: str, run: Path) -> None:
        inputs = {name: str(run / _OUTPUTS[name]) for name in STAGES[stage].inputs if name in _OUTPUTS}
        launch(stage, configs[stage], str(run), inputs)

    with serve_world(recipe.world, folder / "world"):
        for stage in _OUTPUTS.values():
            start(stage, folder / "run")
        for run in ("imports", "profiled"):
            shutil.copytree(folder / "run", folder / run)
        start(_TRAINING, folder / "imports")
        threading.setprofile(path)
        sys.setprofile(path)
        try:
            start(_TRAINING, folder / "profiled")
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    return list(path.files)


def walk_files() -> set[str]:
    """Files that the walk in docs/architecture.md names."""
    page = (_ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    walk = page.split("\n## A rollout's walk\n")[1].split("\n## ")[0]
    names = re.findall(r"`((?:\w+/)*\w+\.py)`", walk)
    return {name if (_ROOT / name).is_file() else f"rubricworks/{name}" for name in names}


def main() -> None:
    """Print the files and their number."""
    with tempfile.TemporaryDirectory() as folder:
        files = reward_path(Path(folder))
    walk = walk_files()
    print(*(file if file in walk else f"{file}  (not in the walk)" for file in files), sep="\n")
    print(json.dumps({"files": len(files), "not in the walk": len(set(files) - walk)}))


if __name__ == "__main__":
    main()
