"""Endpoints as they are written on the command line: MODEL@URL."""

import click

from rubricworks.errors import UserError
from rubricworks.llm import Endpoint

api_key_option = click.option("--api-key-env", help="Environment variable that holds the endpoints' API key.")


def endpoint_of(text: str, api_key_env: str | None, *, max_tokens: int = 1024) -> Endpoint:
    """The endpoint of `MODEL@URL`.

    Raises:
        UserError: it is written otherwise.
    """
    model, at, url = text.partition("@http")
    if not at or not model:
        raise UserError(f"{text}: write an endpoint as MODEL@URL, such as Qwen2.5-VL-7B@http://localhost:8000/v1")
    return Endpoint(url=f"http{url}", model=model, api_key_env=api_key_env, max_tokens=max_tokens)
