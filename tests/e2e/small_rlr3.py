"""RLR³ in small, and the scene world behind a door that keeps a record of every request."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scripted_server import Said, ScriptedServer

SCENES, QUESTIONS = 300, 2
WORLD = {"world.scenes": SCENES, "world.questions": QUESTIONS}
TINY_RLR3 = {
    "data.held_out": 60,
    "data.warm_up": 200,
    "data.max_train": 60,
    "warm_up.sft.steps": 30,
    "warm_up.sft.save_every": 10,
    "genrm_data.test": 40,
    "genrm_data.balance": "false",
    "genrm_data.responses_each": 4,
    "genrm.base.steps": 4,
    "genrm.sft.steps": 4,
    "genrm.rlvr.steps": 2,
    "genrm.rlvr.rollouts.prompts_per_step": 2,
    "audit.per_category": 2,
    "audit.shard_size": 1,
    "policy.algorithm.steps": 4,
    "policy.algorithm.milestone_every": 2,
    "policy.algorithm.save_every": 1,
    "policy.algorithm.rollouts.prompts_per_step": 4,
    "policy.algorithm.rollouts.group_size": 4,
    "policy.algorithm.optimizer.learning_rate": 1e-3,
}
"""Every stage does something, the trainings have several checkpoints, and the rate is high enough to move weights."""


@contextmanager
def recorded_world(folder: Path) -> Iterator[tuple[ScriptedServer, dict[str, str]]]:
    """The world of these sizes behind a server that passes everything on, and the variables that lead to it."""
    command = [sys.executable, "-m", "rubricworks.cli", "world"]
    sizes = ["--scenes", str(SCENES), "--questions", str(QUESTIONS)]
    subprocess.run([*command, "export", str(folder), *sizes], check=True, stdout=subprocess.DEVNULL)
    served = [*command, "serve", str(folder), "--port", "0"]
    world = subprocess.Popen(served, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert world.stdout is not None
        upstream = f"{world.stdout.readline().strip()}/v1"
        door = ScriptedServer(lambda _, body: _passed_on(upstream, body))
        try:
            # The user's own world, as `${…}` in the recipe names it: `world: null` starts none.
            variables = {"RUBRICWORKS_WORLD_URL": door.url, "RUBRICWORKS_WORLD_DIR": str(folder)}
            yield door, {**os.environ, **variables}
        finally:
            door.close()
    finally:
        world.send_signal(signal.SIGTERM)
        world.wait(timeout=300)


def _passed_on(upstream: str, body: dict[str, Any]) -> Said:
    """Forward a request to the world; one without a body asks for the models."""
    content = json.dumps(body).encode() if body else None
    place = f"{upstream}/chat/completions" if body else f"{upstream}/models"
    request = urllib.request.Request(place, content, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return Said(answer.read())
    except urllib.error.HTTPError as error:
        return Said(error.read(), error.code)
