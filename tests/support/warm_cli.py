"""`python -m warm_cli …` is `rubricworks …`, whose runs fork their stages from loaded libraries (`warm_programs`)."""

import os
from pathlib import Path
from typing import IO

import warm_programs

from rubricworks.cli import main
from rubricworks.runs import stage_server


def _start(connection: int, log: IO[str]) -> object:
    return warm_programs.start(
        stage_server.__name__,
        [str(connection)],
        env={**os.environ, "_KFP_RUNTIME": "true"},
        cwd=Path.cwd(),
        stdout=log.fileno(),
        stderr=log.fileno(),
        pass_fds=[connection],
    )


if __name__ == "__main__":
    stage_server._start = _start  # type: ignore[assignment]
    main()
