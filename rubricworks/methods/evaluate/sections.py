"""Report of an evaluation: the leaderboard, and responses of the models side by side."""

from rubricworks.evaluation.leaderboard import Leaderboard
from rubricworks.reports.examples import examples
from rubricworks.reports.leaderboard import board_parts
from rubricworks.reports.page import Block, Report
from rubricworks.reports.parts import Html
from rubricworks.reports.record import RECORD
from rubricworks.reports.rendering import TEMPLATES, render_part
from rubricworks.reports.run_folder import RunFolder


def leaderboard(run: RunFolder) -> Block:
    """The board that the stage wrote, with its charts."""
    board = Leaderboard.model_validate_json((run.path / "leaderboard.json").read_bytes())
    return Block(
        "leaderboard",
        "Leaderboard",
        [Html(render_part("leaderboard_parts.html", **board_parts(board)))],
        details={"comparisons": board.comparisons},
        styles=[TEMPLATES / "leaderboard.css"],
    )


REPORT = Report(
    method="evaluate",
    sections=(leaderboard, examples, *RECORD),
    responses="responses",
    stood_in="images and judges",
    footer="A column holds one scorer, version, judge and opponent.",
)
