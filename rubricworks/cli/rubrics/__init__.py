"""`rubricworks rubrics`: rubric sets from elsewhere, and to there; their content, differences, faults and review."""

import click

from rubricworks.cli.rubrics.audit import audit
from rubricworks.cli.rubrics.convert import export, import_
from rubricworks.cli.rubrics.push import push
from rubricworks.cli.rubrics.review import approve, propose, reject, versions
from rubricworks.cli.rubrics.show import diff, show


@click.group()
def rubrics() -> None:
    """Import, export, upload, show, compare and audit sets of rubrics, and review edits.

    `propose`, `versions`, `approve` and `reject` act on the server of RUBRICWORKS_API.
    """


for command in (import_, export, push, show, diff, audit, propose, versions, approve, reject):
    rubrics.add_command(command)
