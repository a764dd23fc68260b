"""Files of ours that one page of a group enters from its route to Parquet: `python -m benchmarks.group_page_files`.

A made-up run is served and its group's page read twice, the first time to have every module imported. Of the second
reading, each file of the package is counted that is entered after the route function began and before the last call
into pyarrow, in any thread; a file on the way of the HTTP request to the route is not.
"""

import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any

_ROOT = Path(__file__).parents[1]
_PACKAGES = ("rubricworks", "platform_api")
for folder in ("", "runs", "servers"):
    sys.path.insert(0, str(_ROOT / "tests" / "support" / folder))

from pydantic import SecretStr  # noqa: E402
from served_api import TOKEN, bearer, exchange, served, wait_for, wait_for_rollouts  # noqa: E402
from trained_run import STAGE, finish_tables, write_rubrics, write_run  # noqa: E402

from rubricworks.platform_api.settings import ApiSettings  # noqa: E402

_entered: list[str] = []
"""Files in the order of their calls; `PARQUET` stands for a call into pyarrow."""
_PARQUET = "pyarrow"
_is_counting = False
_callers: list[FrameType] = []
"""Frames that wait for the route function, which are entered anew each time it waits."""


def _note(frame: FrameType, event: str, argument: Any) -> None:
    global _is_counting
    if event == "c_call" and _is_counting and str(getattr(argument, "__module__", "")).startswith(_PARQUET):
        _entered.append(_PARQUET)
    if event != "call":
        return
    code = frame.f_code
    if code.co_name == "group_page" and not _is_counting:
        _is_counting = True
        caller = frame.f_back
        while caller is not None:
            _callers.append(caller)
            caller = caller.f_back
    if not _is_counting or frame in _callers:
        return
    path = Path(code.co_filename)
    if _PARQUET in path.parts:
        _entered.append(_PARQUET)
    elif path.is_relative_to(_ROOT) and path.relative_to(_ROOT).parts[0] in _PACKAGES:
        _entered.append(str(path.relative_to(_ROOT)))


def main() -> None:
    """Print the files and their number."""
    global _is_counting
    with tempfile.TemporaryDirectory() as folder:
        run = write_run(Path(folder))
        finish_tables(run)
        write_rubrics(run)
        threading.setprofile(_note)
        with served(ApiSettings(storage=folder, token=SecretStr(TOKEN), index_seconds=3600.0)) as url:
            wait_for_rollouts(url, **bearer())
            rubrics = f"{url}/api/v1/rubric-sets"
            wait_for(lambda: b"synthesize_rubrics" in exchange(rubrics, **bearer())[2])
            page = f"{url}/runs/today-1/rollouts/{STAGE}/1/b"
            exchange(page.replace("/1/b", "/2/a"), **bearer())
            _forget_what_is_cached()
            _is_counting = False
            _entered.clear()
            _callers.clear()
            status, _, _ = exchange(page, **bearer())
            assert status == 200
    last = max(place for place, file in enumerate(_entered) if file == _PARQUET)
    files = sorted(set(_entered[:last]) - {_PARQUET})
    print(*files, f"{len(files)} files", sep="\n")


def _forget_what_is_cached() -> None:
    """Empty the caches, so that the page reads Parquet as the first reader's does."""
    from rubricworks.runs import tables

    tables._kept = tables._RecentBytes(1 << 20)


if __name__ == "__main__":
    main()
