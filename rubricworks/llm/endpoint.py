"""Endpoint: a model's server, sampling settings and prices, as configured in a recipe.

An `Endpoint` holds no secret: the API key stays in an environment variable, and `${NAME}` in the URL is expanded only
on connecting. So an endpoint can be printed, hashed and stored next to a table.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, GetJsonSchemaHandler, JsonValue, field_validator, model_validator
from yarl import URL

from rubricworks.environment import fill, variable
from rubricworks.errors import UserError
from rubricworks.llm.served import ServedModel, defined_model
from rubricworks.redaction import find_secret

Prices = Annotated[tuple[Annotated[float, Field(ge=0)], ...], Field(min_length=2, max_length=3)]


class Endpoint(BaseModel, extra="forbid", frozen=True, allow_inf_nan=False, hide_input_in_errors=True):
    """One model behind an OpenAI-compatible server, or `{serve: NAME}`: one that the run serves itself."""

    url: str | tuple[str, ...] = Field(min_length=1)
    """Base URL as for the OpenAI SDK: `http://host:8000/v1`; without a path, `/v1` is added. May hold `${NAME}`, and a
    query that goes with every request, such as Azure's `?api-version=2024-10-21`. A list names several servers of the
    model: each request goes to the one with the fewest in flight.
    """
    model: str = Field(min_length=1)
    """Name of the model at the endpoint."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the API key."""
    temperature: float = Field(default=0.0, ge=0)
    """Sampling temperature of requests; 0 is greedy."""
    max_tokens: int = Field(default=1024, ge=1)
    """Longest response in tokens, reasoning included."""
    concurrency: int = Field(default=128, ge=1)
    """Maximal number of requests in flight. The limiter starts at 32 and adapts to the server."""
    timeout_s: float = Field(default=120.0, gt=0)
    """Limit for one request, from sending to the last byte of the answer; raise it for models that think for long."""
    revision: str = ""
    """Distinguishes versions of a model served under the same name; part of the cache key."""
    prices: Prices = (0.0, 0.0)
    """Dollars per million tokens of prompts and of answers; a third number is that of prompt tokens that the provider
    had cached, as `usage` reports them.
    """
    on_change: Literal["warn", "refuse"] = "warn"
    """Consequence of an answer by another model than the run's first one was by (`model`, `system_fingerprint`)."""
    batch: bool = False
    """Send the calls by OpenAI's Batch API: at half the price, answered within a day. For what nobody waits for: a
    committee, rubrics, the judges of an evaluation, recaptions.
    """
    extra_body: dict[str, JsonValue] = {}
    """Extra fields of the request, such as `top_p`; null removes a default field: `temperature` for models without it,
    `response_format` for servers that cannot guide decoding by a schema.
    """
    serve: ServedModel | None = None
    """Model of the recipe's section `serve`, by its name there; `url` and `model` follow from it."""

    @model_validator(mode="before")
    @classmethod
    def _served_by_the_run(cls, data: Any) -> Any:
        """Fill in the address and name of a served model.

        Raises:
            ValueError: the endpoint has them itself, or no recipe defines the model.
        """
        served = data.get("serve") if isinstance(data, dict) else None
        if served is None:
            return data
        served = defined_model(served)
        follows = {"url": served.urls, "model": served.name}
        for field, value in follows.items():
            given = data.get(field, value)
            if (tuple(given) if isinstance(given, list) else given) != value:
                raise ValueError(f"{field}: the endpoint has `serve`, from which it follows; leave one of them out")
        for field in ("api_key_env", "batch"):
            if data.get(field):
                raise ValueError(f"{field}: a model that the run serves has none; leave it out")
        return {**data, **follows, "serve": served}

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Schema of an endpoint as recipes write it: with `url` and `model`, or with the name of a served model."""
        reference = handler(core_schema)
        schema = handler.resolve_ref_schema(reference)
        del schema["required"]
        schema["properties"]["serve"] = {"type": "string", "description": "Name of a model in the section `serve`."}
        schema["oneOf"] = [{"required": ["url", "model"]}, {"required": ["serve"]}]
        return reference

    @field_validator("url")
    @classmethod
    def _urls_without_secrets(cls, url: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for server in (url,) if isinstance(url, str) else url:
            if not server.startswith(("http://", "https://", "${")):
                raise ValueError("must start with http:// or https://, as in http://localhost:8000/v1")
            if "@" in server.split("//", 1)[-1].split("/", 1)[0] or find_secret(server):
                raise ValueError(
                    "holds a user or password; put the key in an environment variable and name it in api_key_env"
                )
        return url

    @property
    def urls(self) -> tuple[str, ...]:
        """Base URL of every server, as configured."""
        return (self.url,) if isinstance(self.url, str) else tuple(dict.fromkeys(self.url))

    @property
    def label(self) -> str:
        """Name of this endpoint in messages."""
        if self.serve:
            return f"{self.model}, served by the run"
        return f"{self.model} at {self.urls[0]}"

    @property
    def rater(self) -> str:
        """Name of this endpoint's model in scorecards. A model that the run serves has the digest of its identity
        added.
        """
        return f"{self.model}@{short_digest(self.revision)}" if self.serve and self.revision else self.model

    @property
    def identity(self) -> tuple[object, ...]:
        """Servers, model and the name of the key's variable. Endpoints with equal values differ only in the settings of
        their requests.
        """
        return (self.urls, self.model, self.api_key_env)

    def connect_urls(self) -> list[URL]:
        """Base URL of every server, with variables expanded.

        Raises:
            UserError: a variable is not set, or the result is not a URL.
        """
        return [self._connect_url(url) for url in self.urls]

    def _connect_url(self, template: str) -> URL:
        expanded = fill(template, f"the URL of {self.label}")
        try:
            url = URL(expanded)
        except ValueError:
            url = URL()
        if url.scheme not in ("http", "https") or not url.host:
            raise UserError(f"{self.label}: the URL is not one of http:// or https:// once its variables are filled in")
        return append_path(url, "v1") if url.path in ("", "/") else url

    def api_key(self) -> str | None:
        """API key, read from the environment now. Use it in the request header only."""
        return variable(self.api_key_env, f"the API key of {self.label}") if self.api_key_env else None

    def cost(self, prompt_tokens: int, completion_tokens: int, cached_tokens: int = 0) -> float:
        """Cost of one call in dollars; half of it in a batch.

        Args:
            cached_tokens: those of the prompt that the provider had cached.
        """
        price_in, price_out, price_cached = (*self.prices, self.prices[0])[:3]
        new_tokens = prompt_tokens - cached_tokens
        dollars = (new_tokens * price_in + cached_tokens * price_cached + completion_tokens * price_out) / 1e6
        return dollars / 2 if self.batch else dollars

    @property
    def is_priced(self) -> bool:
        """Return True if its calls cost anything, as far as is known."""
        return any(self.prices)


def short_digest(revision: str) -> str:
    """Return a revision's digest of twelve hexadecimal digits."""
    return hashlib.sha256(revision.encode()).hexdigest()[:12]


def append_path(url: URL, path: str) -> URL:
    """Append a path to a URL and keep its query."""
    longer = url.joinpath(*path.split("/"))
    return URL(f"{longer}?{url.raw_query_string}", encoded=True) if url.raw_query_string else longer


@dataclass(frozen=True)
class SeesImages:
    """Marker of a configuration's field: the model behind it is shown images."""

    when: Callable[[Any], bool] = lambda config: True
    """True if it is by the rest of the configuration."""


@dataclass(frozen=True)
class GivesLogprobs:
    """Marker of a configuration's field: log-probabilities of its model are used."""

    when: Callable[[Any], bool] = lambda config: True
    """True if they are by the rest of the configuration."""


ImageEndpoint = Annotated[Endpoint, SeesImages()]
"""Endpoint of a model that is shown images."""
