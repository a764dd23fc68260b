"""Names of runs. Each names one folder inside the folder of all runs, here and in a cluster's storage."""

import re

from rubricworks.errors import UserError

_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def check_run_name(name: str, option: str) -> None:
    """Check that a run's name cannot lead out of the folder of all runs.

    Args:
        option: source of the name, for the error: `--run`.
    Raises:
        UserError: the name is no plain folder name.
    """
    if not _RUN_NAME.fullmatch(name):
        raise UserError(
            f"{option} {name!r}: a run's name is that of one folder: letters, digits, dots, _ and -, a letter or digit "
            "first, at most 100; the folder of all runs is given by --runs"
        )
