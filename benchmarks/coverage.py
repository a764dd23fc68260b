"""Benchmark of rubric coverage, guards and refresh: the table in docs/world.md.

    python -m benchmarks.coverage --seeds 1 2 3

Every arm of a seed shares its images, warm-up and captions: the seed's quickstart run is copied up to there and
continued with other settings. Each arm trains for real on the scene world's simulated judges.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

ARMS = {
    "full + guards (quickstart)": {},
    "full": {"rubric.guards": "false"},
    "discriminative + guards": {"rubric.coverage": "discriminative"},
    "discriminative (the paper's form)": {"rubric.coverage": "discriminative", "rubric.guards": "false"},
    "discriminative, refreshed every 20": {
        "rubric.coverage": "discriminative",
        "rubric.guards": "false",
        "rubric.refresh_every": "20",
    },
    "discriminative, refreshed every 50": {
        "rubric.coverage": "discriminative",
        "rubric.guards": "false",
        "rubric.refresh_every": "50",
    },
    "discriminative, five student samples": {
        "rubric.coverage": "discriminative",
        "rubric.guards": "false",
        "student.captions_each": "5",
        "student.temperature": "1.0",
    },
}
SHARED = ("world", "prepare", "warm_up", "caption_committee", "caption_student", "recipe.yaml")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    options.add_argument("--arms", nargs="+", type=int, default=list(range(len(ARMS))), help="numbers, from 0")
    options.add_argument("--runs", type=Path, default=Path("runs/coverage"))
    arguments = options.parse_args()
    columns = ["arm", "seed", "oracle F1", "win rate", "rubric reward, sampled", "tokens", "alarm"]
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    for number in arguments.arms:
        arm, settings = list(ARMS.items())[number]
        for seed in arguments.seeds:
            print(row(arm, seed, run_arm(number, settings, seed, arguments.runs)), flush=True)


def run_arm(number: int, settings: dict[str, str], seed: int, runs: Path) -> dict:
    """The summary of one arm, which is run if it is not there yet."""
    name = f"seed{seed}-arm{number}"
    base = f"seed{seed}-arm0"
    if not (runs / base / "summary.json").exists():
        _rubricworks("run", "quickstart", "--runs", runs, "--run", base, "--set", f"seed={seed}")
    if not (runs / name / "summary.json").exists():
        for part in SHARED:
            source, target = runs / base / part, runs / name / part
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                copy = shutil.copytree if source.is_dir() else shutil.copyfile
                copy(source, target)
        changes = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        _rubricworks("run", "--runs", runs, "--resume", name, *changes)
    return json.loads((runs / name / "summary.json").read_text())


def row(arm: str, seed: int, summary: dict) -> str:
    """One line of the table."""
    f1, sampled, tokens = summary["oracle_f1"], summary["sampled"]["rubric_reward"], summary["tokens"]
    win = summary["win_rate"]
    alarm = summary["alarm"] or "-"
    return (
        f"| {arm} | {seed} | {f1['base']:.2f} → {f1['policy']:.2f} | "
        f"{win['value']:.2f} [{win['low']:.2f}, {win['high']:.2f}] | {sampled['base']:.2f} → {sampled['policy']:.2f} | "
        f"{tokens['base']:.0f} → {tokens['policy']:.0f} | {alarm} |"
    )


def _rubricworks(*arguments: object) -> None:
    subprocess.run([sys.executable, "-m", "rubricworks.cli", *map(str, arguments)], check=True, stdout=sys.stderr)


if __name__ == "__main__":
    main()
