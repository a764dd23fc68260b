"""A recipe for a user's own images in small, and the command line as a process of its own."""

import os
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import warm_programs
import yaml
from policy_sections import rubric_policy
from stub_models import CAPTIONERS


class Outcome(NamedTuple):
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        """The lines that say what went wrong."""
        return [line for line in self.err.splitlines() if line.startswith("error:")]


def write_recipe(path: Path, images: Path, url: str, models: dict[str, str] | None = None, **changes: Any) -> Path:
    """A recipe for a few steps of a tiny student; `changes` are merged into its sections."""

    def endpoint(name: str) -> dict[str, Any]:
        return {"url": url, "model": (models or {}).get(name, name), "max_tokens": 256}

    recipe: dict[str, Any] = {
        "name": "own",
        "data": {"source": str(images), "held_out": 3, "prompt": "describe the photograph", "max_side": 512},
        "warm_up": {"student": "tiny", "sft": {"steps": 8, "batch_size": 4}},
        "committee": {"teachers": [endpoint(name) for name in CAPTIONERS]},
        "student": {"max_new_tokens": 8},
        "rubric": {"writer": endpoint("writer"), "coverage": "full"},
        "policy": rubric_policy(
            endpoint("judge"),
            steps=2,
            prompts_per_step=2,
            group_size=4,
            max_new_tokens=8,
            save_every=1,
            learning_rate=0.01,
        ),
        "evaluation": {
            "decodings": ["greedy", "sampled"],
            "max_new_tokens": 8,
            "scorers": {"rubric": {"judge": endpoint("judge")}, "arena": {"judge": endpoint("pairwise")}},
        },
    }
    for section, content in changes.items():
        recipe[section] = {**recipe.get(section, {}), **content}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(recipe, sort_keys=False))
    return path


ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
    "GOMP_SPINCOUNT": "0",
    "HF_HUB_OFFLINE": "1",
}


def rubricworks(*arguments: str | Path, cwd: Path, **environment: str) -> Outcome:
    """The command line in a process of its own, with these variables beside the tests' own."""
    with tempfile.TemporaryDirectory() as output:
        done = warm_programs.run(
            "warm_cli", list(map(str, arguments)), cwd=cwd, env={**ENVIRONMENT, **environment}, output=Path(output)
        )
    return Outcome(done.returncode, done.stdout, done.stderr)


class OwnRun(NamedTuple):
    """A run whose judge wrote prose at first, and which was resumed once it judged."""

    folder: Path
    failed: Outcome
    shards_before: dict[str, bytes]
    """Committed tables as they stood after the failure."""
    finished: Outcome


class FirstRun(NamedTuple):
    """The commands of docs/first-run.md, carried out."""

    folder: Path
    outcomes: dict[str, Outcome]
    """Command of the page → what it ended in, in the page's order."""
    prompts: list[str]
    """Texts of the requests for captions."""

    def outcome(self, beginning: str) -> Outcome:
        return next(outcome for command, outcome in self.outcomes.items() if command.startswith(beginning))
