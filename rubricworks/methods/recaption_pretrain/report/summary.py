"""Last lines that `rubricworks run` prints about a recaptioning run."""

from pathlib import Path

from rubricworks.reports.run_summary import read_summary


def success_lines(run: Path) -> list[str]:
    """Lines that `rubricworks run` prints at the end."""
    summary = read_summary(run)
    one = summary.scores.get("answers_right")
    if one is None or one.base is None or one.policy is None:
        return []
    gain = f" ({one.gain.value:+.3f} [{one.gain.low:+.3f}, {one.gain.high:+.3f}])" if one.gain else ""
    return [f"right answers after pretraining, baseline → policy: {one.base:.3f} → {one.policy:.3f}{gain}"]
