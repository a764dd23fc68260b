"""Write the reference pages that are made from the code: `python docs/generators [FOLDER]` (`make reference`)."""

import sys
from pathlib import Path

from api_page import api_page
from chart_page import chart_page
from commands_page import commands_page
from environment_page import environment_page
from recipe_page import recipe_page
from tables_page import tables_page

REFERENCE = Path(__file__).resolve().parents[1] / "reference"
PAGES = {
    "recipe.md": recipe_page,
    "commands.md": commands_page,
    "api.md": api_page,
    "tables.md": tables_page,
    "environment.md": environment_page,
    "chart.md": chart_page,
}

if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else REFERENCE
    for name, page in PAGES.items():
        (folder / name).write_text(page(), encoding="utf-8")
