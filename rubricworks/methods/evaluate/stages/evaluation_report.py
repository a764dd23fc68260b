"""Write the leaderboard of an evaluation: `leaderboard.html`, `.md`, `.csv` and `.json` in the run's folder.

The board is also the first section of the run's `report.html`.
"""

from rubricworks.reports.leaderboard import build_board, write_board
from rubricworks.reports.run_folder import is_simulated
from rubricworks.runtime.job import Job
from rubricworks.stages.release import report


class Config(report.Config):
    against: str | None = None
    """Model that the others are compared with; by default the evaluation's opponent."""
    every_figure: bool = False
    """Show every part of every scorer, not only the first."""


def run(config: Config, job: Job) -> None:
    board = build_board([job.run], against=config.against, every_figure=config.every_figure)
    write_board(board, job.run, title=job.run.name, simulated=is_simulated(job.run))
    report.run(config, job)
