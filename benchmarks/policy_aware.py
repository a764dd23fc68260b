"""Arms beside the laptop's own run: tables in docs/policy-aware-rewards.md and docs/judge-trust.md, from finished runs.

    rubricworks arms rubicap-laptop --table policy_aware --seed 1 --runs runs/policy-aware      # and 2, 3
    python -m benchmarks.policy_aware runs/policy-aware

`make policy-aware` does both, and `make noise-correction` the same with the arms `noisy` and `noisy_corrected`. Quality
is the oracle's F1 of a step's rollouts, which no reward sees, averaged over the last ten steps. Steps to the same
quality: until it has reached nine tenths of what the recipe's own run of the same seed gains, from its first five steps
to its last twenty. All of it is simulated, but for the student and its training.
"""

import argparse
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from statistics import fmean

from rubricworks.data.alarm import read_alarm
from rubricworks.data.tables import read_rows, read_samples
from rubricworks.evaluation.scoreboard import BASE, SCORES_FILE, read_scoreboard
from rubricworks.metrics.intervals import Interval, t_interval
from rubricworks.world.scene.oracle import score_caption
from rubricworks.world.scene.scene import Scene
from rubricworks.world.scene.scene_index import read_scene_index

WINDOW, FIRST, LAST, SHARE = 10, 5, 20, 0.9
BESIDE = {
    **dict.fromkeys(("refill", "refreshed", "lenient", "noisy"), ""),
    **dict.fromkeys(("lenient_pitfalls", "lenient_refreshed"), "lenient"),
    "noisy_corrected": "noisy",
}
"""Arm → arm that it is compared with; the recipe's own run has no name."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("runs", type=Path)
    runs = options.parse_args().runs
    seeds = sorted(int(folder.name[5:]) for folder in runs.glob("seed-*") if folder.name[5:].isdigit())
    qualities = {
        (seed, arm): quality_of_steps(folder)
        for seed in seeds
        for arm in ("", *BESIDE)
        if ((folder := folder_of(runs, seed, arm)) / "score" / SCORES_FILE).is_file()
    }
    print("| arm | seed | steps to the same quality | oracle F1, held out | alarm |\n|---|---|---|---|---|")
    for (seed, arm), qualities_S in qualities.items():
        steps = steps_to(target(qualities[seed, ""]), qualities_S) or f"> {len(qualities_S)}"
        before, after, alarm = held_out(folder_of(runs, seed, arm))
        print(f"| {arm or 'own'} | {seed} | {steps} | {before:.3f} → {after:.3f} | {alarm} |")
    for arm, other in BESIDE.items():
        pairs = [seed for seed in seeds if {(seed, arm), (seed, other)} <= qualities.keys()]
        if pairs:
            print(
                f"{arm} beside {other or 'own'}, {len(pairs)} seeds: {differences(runs, pairs, arm, other, qualities)}"
            )


def folder_of(runs: Path, seed: int, arm: str) -> Path:
    return runs / (f"seed-{seed}-{arm}" if arm else f"seed-{seed}")


def quality_of_steps(run: Path) -> list[float]:
    """Mean oracle F1 of each step's rollouts."""
    index = read_scene_index(run / "world")
    scenes: dict[str, Scene] = {
        sample.sample_id: index.find(sample.require_image("its scene is looked up"))[1]
        for sample in read_samples(run / "prepare", "train")
    }
    rows: Iterator[dict[str, str]] = read_rows(
        run / "train_policy" / "rollouts", columns=["step", "sample_id", "response"]
    )
    return [
        fmean(score_caption(scenes[row["sample_id"]], row["response"]).f1 for row in group)
        for _, group in groupby(rows, key=lambda row: row["step"])
    ]


def target(own_S: Sequence[float]) -> float:
    start, end = fmean(own_S[:FIRST]), fmean(own_S[-LAST:])
    return start + SHARE * (end - start)


def steps_to(quality: float, qualities_S: Sequence[float]) -> int | None:
    """First step after which the mean of the last steps is at least this; None if it never is."""
    for step in range(WINDOW, len(qualities_S) + 1):
        if fmean(qualities_S[step - WINDOW : step]) >= quality:
            return step
    return None


def held_out(run: Path) -> tuple[float, float, str]:
    """Oracle F1 of base and policy on held-out scenes, greedy; the alarm. An arm has no summary of its own."""
    board = read_scoreboard(run / "score")
    assert board is not None, f"{run} was scored"
    base, policy = (board.mean(model, "oracle_f1") for model in (BASE, board.candidate or ""))
    assert base is not None, "the oracle scores all models"
    assert policy is not None, "the oracle scores all models"
    alarm = read_alarm(run / "train_policy")
    return base.value, policy.value, f"step {alarm.step}" if alarm else "silent"


def differences(
    runs: Path, seeds: Sequence[int], arm: str, other: str, qualities: dict[tuple[int, str], list[float]]
) -> str:
    """Mean differences over seeds, with Student's t intervals."""
    f1 = t_interval([held_out(folder_of(runs, s, arm))[1] - held_out(folder_of(runs, s, other))[1] for s in seeds])
    parts = [f"oracle F1 {signed(f1, 3)}"]
    steps = [
        tuple(steps_to(target(qualities[seed, ""]), qualities[seed, name]) for name in (arm, other)) for seed in seeds
    ]
    reached = [mine - others for mine, others in steps if mine is not None and others is not None]
    if reached:
        missing = len(seeds) - len(reached)
        note = f" ({missing} of {len(seeds)} seeds never got there)" if missing else ""
        parts.append(f"steps to the same quality {signed(t_interval(reached), 0)}{note}")
    return "; ".join(parts)


def signed(interval: Interval, digits: int) -> str:
    """A mean difference with its bounds."""
    bounds = "" if interval.low is None else f" [{interval.low:+.{digits}f}, {interval.high:+.{digits}f}]"
    return f"{interval.value:+.{digits}f}{bounds}"


if __name__ == "__main__":
    main()
