"""The command line `rubricworks`. A command is imported when it is used, so that `--help` answers at once."""

import errno
import importlib
import logging
import sys
from io import StringIO
from typing import Any

import click

from rubricworks import __version__
from rubricworks.errors import UserError
from rubricworks.redaction import redact
from rubricworks.terminal import echo

_COMMANDS = {
    "run": ("rubricworks.cli.run:run", "Run a recipe: images in, a better model and a report out."),
    "recipes": ("rubricworks.cli.recipes:recipes", "List, show and copy recipes, and print their schema."),
    "init": ("rubricworks.cli.init:init", "Write a recipe for your images and your endpoint."),
    "rehearse": (
        "rubricworks.cli.rehearse:rehearse",
        "Run a recipe end to end in miniature, before anybody pays for a GPU.",
    ),
    "doctor": ("rubricworks.cli.doctor:doctor", "Check what a recipe needs, and say what to fix."),
    "caption": (
        "rubricworks.cli.single_steps.caption:caption",
        "Caption a folder of images with a model or an endpoint.",
    ),
    "recaption": (
        "rubricworks.cli.single_steps.recaption:recaption",
        "Caption millions of images, shard by shard, or plan it.",
    ),
    "synthesize": (
        "rubricworks.cli.single_steps.synthesize:synthesize",
        "Write rubrics for images from a committee's captions.",
    ),
    "rubrics": ("rubricworks.cli.rubrics:rubrics", "Import, export, upload, show, compare, audit and review rubrics."),
    "export": ("rubricworks.cli.export:export", "Write a run's images, prompts and rubrics as a training set."),
    "grade": ("rubricworks.cli.single_steps.grade:grade", "Grade captions by rubrics."),
    "evaluate": ("rubricworks.cli.single_steps.evaluate:evaluate", "Score any models on any samples, in one table."),
    "serve": ("rubricworks.cli.serve:serve", "Serve a model directory through OpenAI's protocol."),
    "convert": ("rubricworks.cli.convert:convert", "Write published weights in a torch pickle as safetensors."),
    "leaderboard": (
        "rubricworks.cli.leaderboard:leaderboard_command",
        "Put the models of any evaluations in one table, with what may be compared.",
    ),
    "agreement": ("rubricworks.cli.agreement:agreement", "Compare judges with people, and with each other."),
    "study": ("rubricworks.cli.study:study", "Let people label rubrics and compare images, and compute what they say."),
    "audit": ("rubricworks.cli.audit:audit", "Measure what a judge credits to responses that do not deserve it."),
    "conformance": (
        "rubricworks.cli.conformance:conformance",
        "Check that a trainer, or a reward, never takes a judge's failure for 0.",
    ),
    "arms": ("rubricworks.cli.arms:arms", "Compare a recipe with its arms: what each part is worth, in one table."),
    "table": ("rubricworks.cli.table:table", "Print a paper's table from the scores of any runs, beside its figures."),
    "claims": ("rubricworks.cli.claims:claims", "Check a paper's claims as mechanisms in the scene world."),
    "runs": ("rubricworks.cli.runs:runs", "List, show, follow, submit, stop, retry and prune runs."),
    "schedules": ("rubricworks.cli.schedules:schedules", "Schedule runs on Kubeflow."),
    "promote": ("rubricworks.cli.promote:promote", "Make a challenger the champion, or reject it."),
    "fetch": ("rubricworks.cli.fetch:fetch", "Fetch a model from the registry, and verify its digest and signature."),
    "push": ("rubricworks.cli.push:push", "Upload a run's model to the Hugging Face Hub, with its card."),
    "pipelines": ("rubricworks.cli.pipelines:pipelines", "Compile pipelines for Kubeflow, and push them there."),
    "server": ("rubricworks.cli.installation.server:server", "Pages and API: runs, rollouts, verdicts, criteria."),
    "login": (
        "rubricworks.cli.installation.login:login",
        "Store the token of an installation, whose pages' actions are commands then.",
    ),
    "tokens": (
        "rubricworks.cli.installation.tokens:tokens",
        "Create, list and revoke tokens of a server or an installation.",
    ),
    "world": ("rubricworks.cli.world:world", "The embedded scene world: simulated images and models."),
}


class _LazyGroup(click.Group):
    """Group whose commands are imported when they are used."""

    def __init__(self, **options: Any) -> None:
        # Click suggests one of these names for a mistyped one.
        super().__init__(commands={name: click.Command(name) for name in _COMMANDS}, **options)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[name][0].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with `rubricworks run quickstart`: the whole loop on this machine, without GPU or network.",
)
@click.version_option(__version__)
def cli() -> None:
    """Train vision-language models with rubric rewards."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line: a user's mistake is one line on standard error and exit code 2, never a traceback."""
    logging.getLogger("stamina").setLevel(logging.ERROR)  # its line for every retry tells a user nothing
    try:
        code: Any = cli.main(arguments, prog_name="rubricworks", standalone_mode=False)
    except UserError as error:
        echo(f"error: {redact(str(error))}", err=True)
        sys.exit(2)
    except click.exceptions.NoArgsIsHelpError as error:
        echo(error.format_message(), err=True)
        sys.exit(2)
    except click.ClickException as error:
        error.show(file := StringIO())
        echo(file.getvalue(), err=True, nl=False)
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        echo("stopped", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)
    except OSError as error:
        echo(f"error: {_explain(error)}", err=True)
        sys.exit(2)
    sys.exit(code if isinstance(code, int) else 0)


def _explain(error: OSError) -> str:
    """Message for an error of a place that the user chose; raise any other, which is a bug and keeps its traceback."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{error.strerror}; free some and run again: what was committed is kept"
    if error.filename is None:
        raise error
    return f"{error.filename}: {error.strerror}; choose another place or make it accessible"
