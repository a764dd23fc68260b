"""Last lines that `rubricworks run` prints about a RubricRL run."""

from pathlib import Path

from rubricworks.reports.run_summary import last_lines, read_summary


def success_lines(run: Path) -> list[str]:
    """Lines that `rubricworks run` prints at the end; scores that were not measured have none."""
    summary = read_summary(run)
    lines = []
    for figure, name in (("geneval_correct", "GenEval overall"), ("rubric_reward", "rubric reward")):
        one = summary.scores.get(figure)
        if one is not None and one.base is not None and one.policy is not None:
            gain = f" ({one.gain.value:+.2f} [{one.gain.low:+.2f}, {one.gain.high:+.2f}])" if one.gain else ""
            lines.append(f"{name}: {one.base:.2f} → {one.policy:.2f}{gain}")
    return [*lines, *last_lines(summary)]
