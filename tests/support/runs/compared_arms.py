"""The table of finished runs of a recipe and its arms, as `rubricworks arms` makes it."""

from collections.abc import Mapping
from pathlib import Path

from rubricworks.claims.arm_table import ArmTable, arm_form, arm_rows
from rubricworks.claims.settings import read_scores


def arm_table(pipeline: str, folders: Mapping[str, Path]) -> ArmTable:
    boards = {arm: read_scores(folder, pipeline) for arm, folder in folders.items()}
    rows = arm_rows(boards, folders, arm_form(pipeline, boards["own"]))
    shown = tuple(rows[arm] for arm in ("base", *folders))
    return ArmTable(title="Arms", recipe=pipeline, seed=1, changed=(), simulated=True, version="1", rows=shown)
