"""The version before this one, from the history of the repository, as programs of its own."""

import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[3]
_AT_THE_TOP = ("components", "pipelines", "platform_api", "recipes")
_MIGRATIONS = "platform_api/db/migrations/versions"


class Earlier:
    """Code and chart of a commit, in a folder."""

    def __init__(self, folder: Path, revision: str) -> None:
        """
        Args:
            revision: the newest version without this migration is taken.
        """
        self.folder, self.chart = folder, folder / "charts" / "rubricworks"
        commits = _git("rev-list", "--first-parent", "HEAD").split()
        self.commit = next(
            commit
            for commit in commits
            if f"/r{revision}_" not in _git("ls-tree", "--name-only", commit, "--", f"{_MIGRATIONS}/")
        )
        folders = ("rubricworks", "charts", *_AT_THE_TOP)
        archive = subprocess.run(
            ["git", "archive", self.commit, *folders], cwd=CHECKOUT, capture_output=True, check=True
        )
        folder.mkdir()
        subprocess.run(["tar", "x"], cwd=folder, input=archive.stdout, check=True)
        for name in _AT_THE_TOP:
            (folder / name).rename(folder / "rubricworks" / name)

    def command(self, *arguments: str) -> list[str]:
        """`rubricworks` with arguments, whatever is installed."""
        program = f"import sys; sys.path.insert(0, {str(self.folder)!r}); from rubricworks.cli import main; main()"
        return [sys.executable, "-P", "-c", program, *arguments]

    def python(self, program: str, *arguments: str) -> list[str]:
        """A program that imports this version."""
        return [
            sys.executable,
            "-P",
            "-c",
            f"import sys; sys.path.insert(0, {str(self.folder)!r})\n{program}",
            *arguments,
        ]


def missing_history() -> str | None:
    """Reason that there is no earlier version here; None if there is."""
    try:
        return None if _git("rev-list", "--count", "HEAD") > "1" else "the repository has one commit"
    except (OSError, subprocess.CalledProcessError):
        return "the checkout has no history"


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout.strip()
