"""Model that a run serves itself: its weights, engine and size, as the recipe's `serve:` section defines it.

    serve: {genrm: {model: {stage: train_genrm}, accelerators: 2}}
    policy: {reward: {type: checklist, judge: {serve: genrm}}}

A program of the user's own takes the place of an engine: a detector, or a scorer that is no chat model.

    serve: {detector: {command: [python, geneval_detector.py, …, "{host}:{port}"], image: registry/detector@sha256:…}}
    evaluation: {scorers: {geneval: {serve: detector}}}

The run starts the model with the first stage that calls it (`runtime.serving`), so its address is a variable that only
the run sets. An endpoint that names it holds the whole definition, which is thus part of the calling stage's digest.
"""

import json
import re
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator, model_validator

VARIABLE_PREFIX = "RUBRICWORKS_SERVED_"
"""Beginning of the environment variables that hold the addresses of served models."""
_NAME = r"[a-z][a-z0-9-]*"
SLEEPING_ENV = "RUBRICWORKS_SLEEPING"
"""Environment variable: addresses of the served models that a training may send to sleep, with spaces between."""
EVENTS_FILE = "served_models.jsonl"
"""File of a run's folder: a line for each start, restart and end of a served model."""
ServedName = Annotated[str, Field(pattern=rf"^{_NAME}$", max_length=40)]
ServingEngine = Literal["vllm", "generate"]
_LOADS_CODE = (
    *("trust-remote-code", "middleware", "tool-parser-plugin", "reasoning-parser-plugin", "io-processor-plugin"),
    *("worker-cls", "worker-extension-cls", "scheduler-cls", "logits-processors", "load-format"),
)
_OWN_ARGUMENTS = {
    "host": "the run listens where the stage finds it",
    "port": "the run takes a free one",
    "served-model-name": "the name in `serve` is used",
    "model": "set `model`",
    "revision": "write model: org/name@COMMIT",
    "tensor-parallel-size": "set `accelerators`",
    "max-model-len": "set `max_model_length`",
    "enable-sleep-mode": "set `sleep`",
    "api-key": "only the run's own stages reach the server",
    **dict.fromkeys(_LOADS_CODE, "code that a recipe names is not run, and only safetensors are loaded"),
    **dict.fromkeys(("config", "allowed-local-media-path", "log-config-file"), "a recipe names no files of the server"),
}
"""Argument that the run sets or refuses → reason. So is a beginning of its name, as servers take abbreviations."""


class StageModel(BaseModel):
    """Model that a stage of the same run trains."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stage: str
    """Id of the stage, such as `train_genrm`."""


class ServedDefinition(BaseModel):
    """Entry of the `serve:` section."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, hide_input_in_errors=True)

    model: StageModel | Annotated[str, Field(min_length=1)] | None = None
    """`org/name@COMMIT` of the Hub, a folder, `s3://bucket/folder`, or `{stage: train_genrm}`."""
    command: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Program to run in place of an engine with a model, such as a detector: `{port}` stands for the port that it must
    listen on, `{host}` for the address. `python` is the one that runs this project.
    """
    image: str | None = None
    """Image of the program on a cluster."""
    engine: ServingEngine | None = None
    """`vllm`, or `generate` of Transformers, which suits small models and a few calls. By default vLLM if it is
    installed, else `generate`; on a cluster vLLM.
    """
    accelerators: int = Field(default=0, ge=0, le=1024)
    """Number of accelerators reserved for each replica. 0 shares those of the calling stage, or uses the CPU."""
    replicas: int = Field(default=1, ge=1, le=64)
    """Servers of the model; each request goes to the one with the fewest in flight."""
    max_model_length: int | None = Field(default=None, ge=1)
    """Longest prompt with its answer, in tokens; by default the model's own."""
    arguments: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")], JsonValue] = {}
    """Further options of the server: `{gpu-memory-utilization: 0.5}` becomes `--gpu-memory-utilization 0.5`."""
    start_within: float = Field(default=1800.0, gt=0)
    """Seconds within which the server must be ready."""
    idle: float | None = Field(default=None, ge=0)
    """Seconds without a stage that calls it, after which a server on this machine stops until the next such stage; by
    default it keeps its accelerators until the last one.
    """
    sleep: bool = False
    """On this machine: frees the memory of the accelerators that it shares while a policy's weights are updated, by
    vLLM's sleep mode.
    """

    @field_validator("model", mode="before")
    @classmethod
    def _one_kind_of_model(cls, model: Any) -> Any:
        if (
            model is None
            or isinstance(model, str | StageModel)
            or (isinstance(model, dict) and set(model) == {"stage"})
        ):
            return model
        raise ValueError("write org/name@COMMIT, a folder, s3://bucket/folder, or {stage: train_genrm}")

    @model_validator(mode="after")
    def _one_kind_of_server(self) -> Self:
        if not self.command:
            if self.model is None:
                raise ValueError("set model, or command for a program of your own")
            if self.image is not None:
                raise ValueError("image: it is that of a command, and vLLM has cluster.images.vllm; leave it out")
            return self
        for field in ("model", "engine", "max_model_length", "arguments"):
            if getattr(self, field):
                raise ValueError(f"{field}: a command has none; leave it out, or the command")
        if not any("{port}" in word for word in self.command):
            raise ValueError("command: no word holds {port}; the program must listen on the port that the run gives it")
        return self

    @model_validator(mode="after")
    def _only_a_shared_vllm_sleeps(self) -> Self:
        if self.sleep and (self.command or self.engine == "generate"):
            raise ValueError("sleep: only vLLM has a sleep mode; leave it out")
        if self.sleep and self.accelerators:
            raise ValueError("sleep: a model with accelerators of its own frees none; set accelerators: 0")
        return self

    @field_validator("arguments")
    @classmethod
    def _arguments_are_free(cls, arguments: dict[str, JsonValue]) -> dict[str, JsonValue]:
        for name in arguments:
            if refused := next((known for known in _OWN_ARGUMENTS if known.startswith(name)), None):
                raise ValueError(f"{name} cannot be set here: {_OWN_ARGUMENTS[refused]}")
        return arguments

    @property
    def stage(self) -> str | None:
        """Stage that trains the model; None for any other model."""
        return self.model.stage if isinstance(self.model, StageModel) else None


class ServedModel(ServedDefinition):
    """Definition with its name, as an endpoint holds it."""

    name: ServedName
    """Name of the model in `serve:`."""

    @property
    def variables(self) -> tuple[str, ...]:
        """Environment variables with the address of each replica."""
        first = VARIABLE_PREFIX + re.sub(r"\W", "_", self.name).upper()
        return (first, *(f"{first}_{number}" for number in range(2, self.replicas + 1)))

    @property
    def urls(self) -> str | tuple[str, ...]:
        """URL of its endpoint, with the variables not filled in."""
        urls = tuple(f"${{{variable}}}" for variable in self.variables)
        return urls[0] if len(urls) == 1 else urls

    def command_words(self, host: str, port: int) -> list[str]:
        """`command` for an address."""
        return [word.replace("{host}", host).replace("{port}", str(port)) for word in self.command]

    def command_line(self) -> list[str]:
        """`arguments` as a command line."""
        words: list[str] = []
        for name, value in self.arguments.items():
            if value is False or value is None:
                continue
            words.append(f"--{name}")
            if value is not True:
                words += map(_word, value if isinstance(value, list) else [value])
        return words


class ServedAddress(BaseModel):
    """URL of a server that speaks no chat protocol, or `{serve: NAME}`: one that the run serves itself."""

    url: str
    """Address of the server, for clients."""
    revision: str = ""
    """Version of the model behind the server. For a served model, its identity."""
    serve: ServedModel | None = None

    @model_validator(mode="before")
    @classmethod
    def _served_by_the_run(cls, data: Any) -> Any:
        """Fill in the address of what the run serves.

        Raises:
            ValueError: it is not defined, has an address itself, or has replicas.
        """
        if not isinstance(data, dict) or data.get("serve") is None:
            return data
        served = defined_model(data["serve"])
        if data.get("url", served.urls) != served.urls:
            raise ValueError("url: it follows from `serve`; leave one of them out")
        if served.replicas > 1:
            raise ValueError(f"serve.{served.name}.replicas: only endpoints of chat models share load; set 1")
        return {**data, "url": served.urls, "serve": served}


def defined_model(served: Any) -> ServedModel:
    """Return the definition that a recipe gives for a name.

    Raises:
        ValueError: it gives none.
    """
    if isinstance(served, str) or (isinstance(served, dict) and "unknown" in served):
        hint = served["unknown"] if isinstance(served, dict) else "a recipe defines it in its section `serve`"
        name = served["name"] if isinstance(served, dict) else served
        raise ValueError(f"serve: no served model {name!r}; {hint}")
    return served if isinstance(served, ServedModel) else ServedModel.model_validate(served)


def _word(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value)


_lost: dict[str, str] = {}
"""Served model that this process cannot reach again → the reason."""


def mark_lost(name: str, reason: str) -> None:
    """Make every call of a served model fail at once, because its server will not return."""
    _lost[name] = reason


def lost_reason(name: str) -> str | None:
    """Reason why a served model will not return; None if it may."""
    return _lost.get(name)
