"""Last lines that `rubricworks run` prints about a RubiCap run."""

from pathlib import Path

from rubricworks.reports.formats import number
from rubricworks.reports.run_summary import last_lines, read_summary


def success_lines(run: Path) -> list[str]:
    """Lines that `rubricworks run` prints at the end; scores that were not measured have none."""
    summary = read_summary(run)
    lines = []
    if win := summary.win_rate:
        lines.append(f"win rate against the base: {win.value:.2f} [{number(win.low)}, {number(win.high)}]")
    for name, pair in (("oracle f1", summary.oracle_f1), ("rubric reward", summary.rubric_reward)):
        if pair.base is not None and pair.policy is not None:
            lines.append(f"{name}: {pair.base:.2f} → {pair.policy:.2f}")
    return [*lines, *last_lines(summary)]
