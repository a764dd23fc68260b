"""Write the leaderboard of an evaluation: `leaderboard.html`, `.md`, `.csv` and `.json` in the run's folder.

The page is also the run's `report.html`, and `summary.json` holds the board for programs.
"""

from rubricworks.llm.spending import SPENDING_FILE, read_spending
from rubricworks.reports.costs import model_calls, stage_costs
from rubricworks.reports.leaderboard_files import build_board, write_board
from rubricworks.reports.run_folder import is_simulated, read_dead_letters, read_ledger, read_recipe
from rubricworks.reports.run_summary import run_summary
from rubricworks.reports.scores import read_board
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job
from rubricworks.runtime.stage_table import REPORTS
from rubricworks.stages.release.run_report import write_report


class Config(StageConfig):
    against: str | None = None
    """Model that the others are compared with; by default the evaluation's opponent."""
    every_figure: bool = False
    """Show every part of every scorer, not only the first."""


def run(config: Config, job: Job) -> None:
    board = build_board([job.run], against=config.against, every_figure=config.every_figure)
    write_board(board, job.run, title=job.run.name, simulated=is_simulated(job.run))
    calls = model_calls(read_spending(job.run / SPENDING_FILE))
    summary = run_summary(
        job.run,
        recipe=read_recipe(job.run),
        method="evaluate",
        board=read_board(job.run),
        promotion=None,
        alarm=None,
        costs=stage_costs(read_ledger(job.run), calls, exclude=REPORTS),
        dead_letters=read_dead_letters(job.run),
        details={"comparisons": board.comparisons},
    )
    write_report(job, (job.run / "leaderboard.html").read_text(encoding="utf-8"), summary)
