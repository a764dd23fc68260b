"""Folders of what several tests share, for programs that tests start; pytest has them from pyproject.toml."""

from pathlib import Path

_SUPPORT = Path(__file__).parent
SUPPORT_PATHS = [str(_SUPPORT), *(str(_SUPPORT / name) for name in ("cluster", "runs", "servers", "worlds"))]
