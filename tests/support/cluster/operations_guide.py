"""Commands of docs/operations.md, carried out by a shell as they are written."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

GUIDE = Path(__file__).parents[3] / "docs" / "operations.md"


def blocks() -> dict[str, list[str]]:
    """Heading → its shell blocks, of every heading that has one."""
    sections = re.split(r"^## (.+)\n", GUIDE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    pairs = dict(zip(sections[::2], sections[1::2], strict=True))
    scripts_of = {heading: re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for heading, text in pairs.items()}
    return {heading: scripts for heading, scripts in scripts_of.items() if scripts}


def carry_out(script: str, environment: Mapping[str, str], folder: Path) -> str:
    """Output of a block; any line that fails, or names a variable that is not set, fails it.

    Args:
        environment: further variables; PATH is searched before this one's.
    """
    path = os.pathsep.join(
        filter(None, [environment.get("PATH"), str(Path(sys.executable).parent), os.environ["PATH"]])
    )
    done = subprocess.run(
        ["sh", "-c", f"set -eu\n{script}"],
        capture_output=True,
        text=True,
        env={**os.environ, **environment, "PATH": path},
        cwd=folder,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
    return done.stdout
