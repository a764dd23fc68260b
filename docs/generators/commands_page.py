"""Reference page of the command line: the help of each command, as `--help` prints it."""

from collections.abc import Iterator

import click

from rubricworks.cli import cli

_INTRO = """# Command line

Every command with its arguments and options, as `--help` prints them.

- Start with `rubricworks init`, `rubricworks doctor` and `rubricworks run`.
- Exit codes: 0 on success; 1 if a check failed (`rubrics audit --refuse`, `rubrics diff`, `rehearse`, `conformance`);
  2 on an error, with one line on standard error; 130 if stopped by Ctrl-C.
- Results go to standard output; progress and warnings go to standard error.
- With `rubricworks login`, `runs`, `promote` and `schedules` act on a server.
"""
_WIDTH = 100


def commands_page() -> str:
    """The page as Markdown."""
    parts = [_INTRO]
    for path, command, context in _commands(cli, click.Context(cli, info_name="rubricworks", **cli.context_settings)):
        level = "##" if path.count(" ") == 1 else "###"
        parts += [f"{level} {path}", "", "```text", command.get_help(context).rstrip(), "```", ""]
    return "\n".join(parts).rstrip() + "\n"


def _commands(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command, click.Context]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(
            command, info_name=name, parent=context, terminal_width=_WIDTH, max_content_width=_WIDTH, color=False
        )
        yield inner.command_path, command, inner
        if isinstance(command, click.Group):
            yield from _commands(command, inner)
