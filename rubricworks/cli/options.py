"""Options and forms of arguments that several commands share."""

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

import click
from pydantic import ValidationError

from rubricworks.errors import UserError
from rubricworks.llm import Endpoint
from rubricworks.redaction import redact
from rubricworks.terminal import echo

if TYPE_CHECKING:
    from rubricworks.data.rubric_sets import RubricEntry
    from rubricworks.grading import Subject

api_key_option = click.option("--api-key-env", help="Environment variable that holds the endpoints' API key.")
cluster_option = click.option(
    "--cluster",
    "recipe",
    metavar="RECIPE",
    help="Recipe whose cluster: section locates Kubeflow. Default: RUBRICWORKS_KUBEFLOW.",
)
at_once_option = click.option(
    "--at-once", default=2, show_default=True, type=click.IntRange(min=1), help="Runs side by side."
)
prices_option = click.option(
    "--prices", metavar="IN,OUT[,CACHED]", help="Dollars per million tokens: prompt, completion, cached prompt."
)
overrides_of_runs_option = click.option(
    "--set", "overrides", multiple=True, metavar="A.B=C", help="Change a field of the recipe in every run."
)
subject_option = click.option(
    "--subject",
    type=click.Choice(["caption", "answer"]),
    help="Kind of response. The judge of answers also sees prompt and reference answer.  [default: answer if the "
    "set of rubrics has prompts]",
)
report_line = partial(echo, err=True)
"""Print a line of progress, or a warning, to standard error."""


def chosen_subject(subject: "Subject | None", entries: "Iterable[RubricEntry]") -> "Subject":
    """What the responses to a rubric set are: as --subject says, or answers where the set has prompts."""
    return subject or ("answer" if any(entry.prompt for entry in entries) else "caption")


def parse_endpoint(text: str, api_key_env: str | None, *, max_tokens: int = 1024) -> Endpoint:
    """Endpoint of an argument `MODEL@URL`.

    Raises:
        UserError: the text has another form, or shows a secret.
    """
    model, at, url = text.partition("@http")
    if not at or not model:
        raise UserError(
            f"{redact(text)}: write an endpoint as MODEL@URL, such as Qwen2.5-VL-7B@http://localhost:8000/v1"
        )
    try:
        return Endpoint(url=f"http{url}", model=model, api_key_env=api_key_env, max_tokens=max_tokens)
    except ValidationError as error:
        message = error.errors(include_input=False)[0]["msg"].removeprefix("Value error, ")
        raise UserError(
            f"{redact(text)}: the URL {message.replace('name it in api_key_env', 'name it by --api-key-env')}"
        ) from None


def parse_prices(text: str) -> tuple[float, ...]:
    """Prices of an endpoint.

    Raises:
        UserError: the text is not two or three numbers.
    """
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        values = ()
    if len(values) not in (2, 3) or not all(0 <= value < float("inf") for value in values):
        raise UserError(f"--prices is {text!r}; write two or three numbers, such as 0.15,0.6 or 0.15,0.6,0.075")
    return values
