"""Identity of a served model: digest of its weights, engine with version, and arguments.

It is the revision of every endpoint that calls the model, and so part of the cache key, of the stage's record, of
`identities.json` and of scorecards: a retrained model is never answered from the cache of the one before.
"""

import hashlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from rubricworks import __version__
from rubricworks.data.hub import model_source
from rubricworks.environment import fill
from rubricworks.errors import UserError
from rubricworks.kubernetes import SERVE
from rubricworks.kubernetes.config import ServePlan, plan_from_environment
from rubricworks.llm.served import ServedModel, ServingEngine
from rubricworks.runtime.job import model_dir, output_digest
from rubricworks.storage import files_digest, is_remote, open_bucket

REWARD_MODEL = "reward_model"
"""Folder of a stage that fetches a policy from the registry, with the reward model that trained it."""


_LONGEST_NAME = 255


class ServedIdentity(NamedTuple):
    """Identity of the answering model; it changes whenever a request might be answered differently."""

    weights: str
    """Digest of the weights, or `org/name@COMMIT`."""
    engine: ServingEngine | Literal["program"]
    version: str
    arguments: str
    """Length and further options as they are on the command line; empty without any."""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.weights, f"{self.engine}-{self.version}".rstrip("-"), self.arguments)))


class Weights(NamedTuple):
    """Place of a model's weights, and their digest."""

    place: str
    """Folder on this machine, `org/name@COMMIT`, or the URI of a store."""
    digest: str


def served_identity(served: ServedModel, weights: Weights) -> ServedIdentity:
    """Return the identity of a model as it is served here."""
    plan = plan_from_environment(SERVE, ServePlan)
    if served.command:
        if plan is not None and served.image is None:
            raise UserError(f"serve.{served.name}.image is missing; name the image of its command")
        return ServedIdentity(weights.digest, "program", served.image or "" if plan else "", "")
    if plan is None:
        engine = served.engine or default_engine()
        version = engine_version(engine)
    else:  # the image is what answers
        if served.name not in plan.pods:
            raise UserError(
                f"cluster.serve.{served.name} is missing; name the pool of this model, which the stage calls"
            )
        engine, version = "vllm", plan.pods[served.name].image
        if served.engine not in (None, engine):
            raise UserError(f"serve.{served.name}.engine: a cluster serves models by vLLM; leave the engine out")
    return ServedIdentity(weights.digest, engine, version, " ".join(server_options(served, engine)))


def served_weights(served: ServedModel, inputs: Mapping[str, Path]) -> Weights:
    """Find the weights of a served model.

    Args:
        inputs: the calling stage's; a model of the run's own is one of them.
    Raises:
        UserError: the weights are not there, or were pruned.
    """
    if served.command:
        return Weights(" ".join(served.command), f"sha256:{_program_digest(served.command)}")
    where = f"serve.{served.name}.model"
    if served.stage is not None:
        output = next((path for path in inputs.values() if path.name == served.stage), None)
        if output is None:
            raise UserError(f"{where}: the stage gets no output of {served.stage}; call it from one that does")
        folder, digest = model_dir(output), output_digest(output)
        if (beside := output / REWARD_MODEL).is_dir():
            folder, digest = beside, files_digest(beside.rglob("*"), beside)
        if not any(folder.glob("*.safetensors")):
            raise UserError(
                f"{where}: the weights of {served.stage} are gone from {folder} (pruned?); remove {output}, and resume "
                "the run to train it again"
            )
        return Weights(str(folder), f"sha256:{digest}")
    place = fill(str(served.model), where)
    if is_remote(place):
        return Weights(place, f"sha256:{_stored_digest(place, where)}")
    try:
        source = model_source(place)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    if source is not None:
        return Weights(place, place)
    folder = Path(place).expanduser()
    if not (folder / "config.json").is_file():
        raise UserError(f"{where}: {place}: no model is there (no config.json); give its folder, or org/name@COMMIT")
    files = [path for path in folder.rglob("*") if path.is_file() and ".cache" not in path.parts]
    return Weights(str(folder), f"sha256:{files_digest(files, folder)}")


def _program_digest(command: Sequence[str]) -> str:
    """Digest over the words of a command, and over the files that they name here."""
    digest = hashlib.sha256(json.dumps(command).encode())
    for word in command:
        if len(word) < _LONGEST_NAME and (path := Path(word)).is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _stored_digest(place: str, where: str) -> str:
    """Digest over names, sizes and tags of a model's objects in a store, which change with their content."""
    objects = sorted((stored.key, stored.size, stored.etag) for stored in open_bucket(place).objects())
    if not any(key.endswith("config.json") for key, *_ in objects):
        raise UserError(f"{where}: {place}: no model is there (no config.json)")
    return hashlib.sha256(json.dumps(objects).encode()).hexdigest()


def server_options(served: ServedModel, engine: ServingEngine | Literal["program"]) -> list[str]:
    """Options on which answers depend, on the server's command line.

    Raises:
        UserError: the engine has no such option.
    """
    length = served.max_model_length
    if engine == "program":
        return []
    if engine == "generate":
        if length is not None:
            raise UserError(
                f"serve.{served.name}.max_model_length: the engine generate takes the model's own; leave it out, or "
                "install vLLM"
            )
        return served.command_line()
    # Without it a model's own sampling defaults would fill in what a recipe leaves out.
    defaults = () if "generation-config" in served.arguments else ("--generation-config", "vllm")
    return [*defaults, *(("--max-model-len", str(length)) if length else ()), *served.command_line()]


def default_engine() -> ServingEngine:
    """vLLM if it is installed here, else `generate` of Transformers."""
    return "vllm" if vllm_command() else "generate"


def vllm_command() -> str | None:
    """Path of the program `vllm`: beside this Python, or on the path; None if it is not installed."""
    beside = Path(sys.executable).parent / "vllm"
    return str(beside) if beside.is_file() else shutil.which("vllm")


def engine_version(engine: ServingEngine) -> str:
    """Version of an engine.

    Raises:
        UserError: vLLM is not installed.
    """
    if engine == "generate":
        return __version__
    command = vllm_command()
    if command is None:
        raise UserError("vllm is not installed here; install it, or set `engine: generate` for small models")
    if Path(command).parent == Path(sys.executable).parent:
        return importlib.metadata.version("vllm")
    return _version_beside(Path(command))


def _version_beside(command: Path) -> str:
    """Version of vLLM in another environment, by the Python that runs its program."""
    python = next(
        (path for path in (command.resolve().parent / name for name in ("python3", "python")) if path.is_file()), None
    )
    if python is None:
        raise UserError(f"{command}: there is no python beside it, so its version is not known; install vllm anew")
    query = "import importlib.metadata as metadata; print(metadata.version('vllm'))"
    result = subprocess.run([str(python), "-c", query], capture_output=True, text=True, env=_plain_environment())
    if result.returncode:
        raise UserError(f"{command}: its version is not known: {result.stderr.strip().splitlines()[-1][:200]}")
    return result.stdout.strip()


def _plain_environment() -> dict[str, str]:
    """This environment without the variables that belong to this Python."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
