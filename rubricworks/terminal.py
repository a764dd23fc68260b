"""Lines for a terminal. Names and texts of files, models and servers are among them, and may hold escape sequences.

A sequence could move the cursor, rewrite earlier lines, set the title or the clipboard. So everything is printed by
these functions, which show control characters in the form of JSON: `\\u001b`.
"""

import logging
import re
import sys

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""C0 and C1 without tab and line ends, DEL, overrides of the direction of writing, and half characters."""
_LINE_END = re.compile(r"\r\n?")


def visible(text: str) -> str:
    """Return a text whose control characters are shown, and whose lines end in one way."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", _LINE_END.sub("\n", text))


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print what a command answers."""
    import click  # no stage needs it

    click.echo(visible(text), err=err, nl=nl)


def echo_file(content: bytes) -> None:
    """Print the content of a file: unchanged into another file or a pipe, visible on a terminal."""
    import click

    if sys.stdout.isatty():
        echo(content.decode(errors="replace"), nl=False)
    else:
        click.echo(content, nl=False)


def say(line: str) -> None:
    """Print a line of a run's progress on standard error."""
    print(visible(line), file=sys.stderr, flush=True)


class VisibleLines(logging.Formatter):
    """Formatter of log lines for a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))
