"""`rubricworks rubrics`: rubric sets from elsewhere, and to there; their content, differences and faults."""

import click

from rubricworks.cli.rubrics.audit import audit
from rubricworks.cli.rubrics.convert import export, import_
from rubricworks.cli.rubrics.push import push
from rubricworks.cli.rubrics.show import diff, show


@click.group()
def rubrics() -> None:
    """Import, export, upload, show, compare and audit sets of rubrics."""


for command in (import_, export, push, show, diff, audit):
    rubrics.add_command(command)
