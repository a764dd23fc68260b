"""Benchmark of coverage, guards, deficiency sampling and rules: the tables in docs/world.md.

    python -m benchmarks.coverage                                            # all sixteen arms, seed 1, 100 steps
    python -m benchmarks.coverage --steps 200 --seeds 1 2 3 --arms 0 14      # the recipes rubicap-laptop and quickstart

Every arm of a seed shares its images, warm-up and teachers' captions: each run reuses them from the seed's first. Each
arm trains for real on the scene world's simulated judges, and is compared with its base greedily.
"""

import argparse
import json
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple


class Arm(NamedTuple):
    """A choice for each condition, by name."""

    coverage: str
    guards: str
    captions: str
    rules: str

    @property
    def changes(self) -> dict[str, str]:
        """The recipe's fields, one for each condition."""
        return {
            "rubric.coverage": self.coverage,
            "rubric.guards": str(self.guards == "guards").lower(),
            "student.temperature": "1.0" if self.captions == "sampled" else "0.0",
            "rubric.writer.model": "rubric-writer" if self.rules == "strict" else "lenient-rubric-writer",
        }


ARMS = [
    Arm(*choices)
    for choices in product(
        ("discriminative", "full"), ("no guards", "guards"), ("sampled", "greedy"), ("strict", "lenient")
    )
]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, nargs="+", default=[1])
    options.add_argument("--steps", type=int, default=100)
    options.add_argument("--arms", nargs="+", type=int, default=list(range(len(ARMS))), help="numbers, from 0")
    options.add_argument("--runs", type=Path, default=Path("runs/coverage"))
    arguments = options.parse_args()
    columns = [*Arm._fields, "seed", "oracle F1", "win rate", "rubric reward", "tokens", "hacking alarm"]
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    for number in arguments.arms:
        for seed in arguments.seeds:
            summary = run_arm(number, seed, arguments.steps, arguments.runs)
            print(row(ARMS[number], seed, summary), flush=True)


def run_arm(number: int, seed: int, steps: int, runs: Path) -> dict[str, Any]:
    """The summary of one arm, which is run if it is not there yet."""
    name = f"seed{seed}-arm{number}-{steps}"
    if not (runs / name / "summary.json").exists():
        if (runs / name / "recipe.yaml").exists():
            _rubricworks("run", "--runs", runs, "--resume", name)
        else:
            settings = {"seed": seed, "policy.algorithm.steps": steps, "evaluation.decodings": "[greedy]"}
            settings |= ARMS[number].changes
            changes = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
            finished = sorted(folder.parent.name for folder in runs.glob(f"seed{seed}-*/summary.json"))
            shared = ["--reuse", finished[0]] if finished else []
            _rubricworks("run", "rubicap-laptop", "--runs", runs, "--run", name, *changes, *shared)
    return json.loads((runs / name / "summary.json").read_text())


def row(arm: Arm, seed: int, summary: dict[str, Any]) -> str:
    """One line of the table."""
    f1, reward, tokens = (summary["scores"][figure] for figure in ("oracle_f1", "rubric_reward", "length_tokens"))
    win = summary["win_rate"]
    cells = [
        *arm,
        str(seed),
        f"{f1['base']:.2f} → {f1['policy']:.2f}",
        f"{win['value']:.2f} [{win['low']:.2f}, {win['high']:.2f}]",
        f"{reward['base']:.2f} → {reward['policy']:.2f}",
        f"{tokens['base']:.0f} → {tokens['policy']:.0f}",
        (summary["alarm"] or "silent").partition(":")[0],
    ]
    return f"| {' | '.join(cells)} |"


def _rubricworks(*arguments: object) -> None:
    subprocess.run([sys.executable, "-m", "rubricworks.cli", *map(str, arguments)], check=True, stdout=sys.stderr)


if __name__ == "__main__":
    main()
