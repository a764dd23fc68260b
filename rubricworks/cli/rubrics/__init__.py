"""`rubricworks rubrics`: rubric sets from elsewhere, and to there; their content and differences."""

import click

from rubricworks.cli.rubrics.convert import export, import_
from rubricworks.cli.rubrics.show import diff, show


@click.group()
def rubrics() -> None:
    """Import, export, show and compare sets of rubrics."""


for command in (import_, export, show, diff):
    rubrics.add_command(command)
