"""Policy of submitted recipes. A recipe is code: it names servers, variables that are sent there, files, functions.

    # the file that RUBRICWORKS_SUBMISSIONS names
    hosts:
      api.openai.com: [OPENAI_API_KEY]
      judge.example:8000: []
      http://vllm.models.svc:8000: [VLLM_KEY]
      ${JUDGE_URL}: []
    places: [s3://datasets/photographs, /data/images, hf://Qwen, hf://HuggingFaceTB/SmolVLM-256M-Instruct]
    functions: ["my_rewards:brevity"]
    task_folders: [/opt/lmms-tasks]
    cluster:
      storage: s3://rubricworks/runs
      pools: {cpu: {}}
      stages: {default: {pool: cpu}}
      env: {RUBRICWORKS_API: http://rubricworks-api}
      secrets: {runner: {token: RUBRICWORKS_API_TOKEN}}

Nothing is admitted but what the file names, and the scene world of a recipe. A private repository of the Hub needs its
token as well: `huggingface.co: [HF_TOKEN]`. Images, accounts and pools are the
installation's: a submitted recipe has no `cluster:` of its own.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError, field_validator

from rubricworks.environment import names_in
from rubricworks.errors import UserError
from rubricworks.evaluation.scorers.capture import CaptureScorer
from rubricworks.platform_api.schemas.bodies import JsonObject
from rubricworks.recipe import ClusterConfig, Recipe
from rubricworks.recipe.mistakes import Mistake
from rubricworks.redaction import is_secret_name
from rubricworks.runtime.admission import SCENE_WORLD, Admission, needs_of, nested_fields
from rubricworks.runtime.recipe_fields import (
    ADMISSION,
    HUB,
    Reach,
    is_address,
    leads_upwards,
    names_task_folder,
    places_in,
    reach_of,
)
from rubricworks.strict_yaml import YamlError, parse_yaml
from rubricworks.tracking.installation import TOKEN_VARIABLE, VARIABLE
from rubricworks.training.config import VllmServer

_SETTING = "RUBRICWORKS_SUBMISSIONS"
_VLLM: str = VllmServer.model_fields["url"].default
_PARSER: str = CaptureScorer.model_fields["parser"].default
_UNCLEAR = re.compile(r"[\\\s\x00-\x1f\x7f]")


class SubmissionPolicy(Admission):
    """Rules of an installation's operator for submitted recipes."""

    cluster: ClusterConfig | None = None
    """Placement of submitted recipes; None if they only run on the service's own machine."""

    @field_validator("cluster")
    @classmethod
    def _runs_request_promotions(cls, cluster: ClusterConfig | None) -> ClusterConfig | None:
        """Refuse a placement whose runs would move the aliases of models themselves, without approval."""
        if cluster is None:
            return None
        secrets = {variable for variables in cluster.secrets.values() for variable in variables.values()}
        if VARIABLE not in cluster.env or TOKEN_VARIABLE not in secrets:
            raise ValueError(
                "runs on Kubeflow request their promotions from this service, which alone moves aliases: name it by "
                f"env: {{{VARIABLE}: 'http://SERVICE'}}, with a runner's token by secrets: "
                f"{{NAME: {{KEY: {TOKEN_VARIABLE}}}}}"
            )
        return cluster

    def variables(self) -> frozenset[str]:
        """Environment variables that a run may have."""
        addresses = {name for host in self.hosts for name in names_in(host)}
        return frozenset(addresses.union(*self.hosts.values()))

    def environment(self, whole: Mapping[str, str]) -> dict[str, str]:
        """The part of an environment that a run gets: no secret, and nothing of the service, unless it is admitted."""
        admitted = self.variables()
        return {
            name: value
            for name, value in whole.items()
            if name in admitted or not (name.startswith("RUBRICWORKS_") or is_secret_name(name))
        }

    def violations(self, recipe: Recipe) -> list[Mistake]:
        """Return the mistakes of a recipe that reaches what is not admitted, by field."""
        mistakes = self.violations_in(recipe.model_dump(mode="json"), has_world=recipe.world is not None)
        if recipe.cluster is not None:
            mistakes.append(_mistake("cluster", "the installation says where runs are placed; leave this section out"))
        return mistakes

    def violations_in(self, settings: JsonObject, *, has_world: bool = False) -> list[Mistake]:
        """Return the mistakes of a recipe's settings, with their defaults: a default may be an address, too."""
        return list(self._violations(settings, (), has_world=has_world))

    def _violations(self, value: Any, path: tuple[str, ...], *, has_world: bool) -> Iterator[Mistake]:
        if path == ("cluster",):
            return
        if path[-1:] == (ADMISSION,):
            yield from self._unadmitted_admission(value, path)
            return
        if path[-1:] == ("changes",) and isinstance(value, dict):
            yield from _parts_of_endpoints(value, path)
        if isinstance(value, list):
            value = {str(number): inner for number, inner in enumerate(value) if isinstance(inner, dict | list)}
        if not isinstance(value, dict):
            return
        section = _fields_in_use(nested_fields(value))
        texts = {key: inner for key, inner in section.items() if isinstance(inner, str | list)}
        yield from self._unadmitted(texts, path, has_world=has_world)
        for key, inner in section.items():
            yield from self._violations(inner, (*path, key), has_world=has_world)

    def _unadmitted_admission(self, value: Any, path: tuple[str, ...]) -> Iterator[Mistake]:
        """Refuse a recipe that admits more for another recipe, the champion's, than is admitted here."""
        try:
            lacking = self.lacking(Admission.model_validate(value))
        except ValidationError:
            yield _mistake(
                ".".join(path), "write hosts: {HOST: [VARIABLES]}, and lists of places, functions and task_folders"
            )
            return
        if not lacking.is_empty:
            yield _mistake(".".join(path), f"not admitted here; an admin may add {lacking.as_yaml()} to {_SETTING}")

    def _unadmitted(self, section: JsonObject, path: tuple[str, ...], *, has_world: bool) -> Iterator[Mistake]:
        is_code = names_task_folder(path, section)
        for key, inner in section.items():
            for text in inner if isinstance(inner, list) else [inner]:
                if isinstance(text, str) and is_code and key == "source":
                    yield from self._unadmitted_code((*path, key), Admission(task_folders=(text,)))
                elif isinstance(text, str):
                    yield from self._unadmitted_text((*path, key), text)
        needs = needs_of(section, of_stranger=True)
        own = {host for host, sent in needs.hosts.items() if host in SCENE_WORLD and has_world and not sent}
        hosts = {host: sent for host, sent in needs.hosts.items() if host not in own}
        keys = [key for key in section if _name(key).endswith("_env") and isinstance(section[key], str)]
        if keys and not needs.hosts:
            hosts[""] = tuple(section[key] for key in keys)
        lacking = self.lacking(Admission(hosts=hosts))
        if not lacking.is_empty:
            field = ".".join((*path, next(key for key in section if _reaches(key, section[key]))))
            how = "; or write https://" if any(host.startswith("http://") for host in lacking.hosts) else ""
            yield _mistake(field, f"not admitted here; an admin may add {lacking.as_yaml()} to {_SETTING}{how}")

    def _unadmitted_text(self, path: tuple[str, ...], text: str) -> Iterator[Mistake]:
        field, reach, place = ".".join(path), reach_of(path), text.strip()
        if reach is Reach.HOST and text not in self.hosts:
            yield _mistake(field, f"{text} is not admitted here; an admin may add it to the hosts of {_SETTING}")
        if reach is Reach.FUNCTION:
            yield from self._unadmitted_code(path, Admission(functions=(text,)))
            return
        if "://" in place and "\n" not in place and _UNCLEAR.search(place):
            yield _mistake(field, "an address has no spaces and no backslashes; write %20 and /")
            return
        places = places_in(path, text)
        for named in places:
            if not self.admits_place(named):
                yield _mistake(field, self._unadmitted_place(named, text))
                return
        if not places and reach is Reach.ADDRESS and place and not is_address(place):
            yield _mistake(field, "no address; write https://host/path, ${VARIABLE}/path or an admitted place")

    def _unadmitted_code(self, path: tuple[str, ...], needs: Admission) -> Iterator[Mistake]:
        lacking = self.lacking(needs)
        if not lacking.is_empty:
            yield _mistake(".".join(path), f"not admitted here; an admin may add {lacking.as_yaml()} to {_SETTING}")

    def _unadmitted_place(self, place: str, text: str) -> str:
        if leads_upwards(place):
            return "a path does not lead upwards; write it whole"
        if place.startswith(HUB) and HUB not in text:
            return (
                f"{text.strip()} is a name on the Hugging Face Hub that is not admitted here; an admin may add "
                f"{place}, or its organisation, to places of {_SETTING}"
            )
        return f"this place is not admitted here; an admin may add it to places of {_SETTING}"


def load_policy(path: str | None) -> SubmissionPolicy:
    """Read the operator's file; without one, nothing is admitted.

    Raises:
        UserError: it cannot be read, or has mistakes.
    """
    if path is None:
        return SubmissionPolicy()
    try:
        value = parse_yaml(Path(path).read_text(encoding="utf-8")).value
        return SubmissionPolicy.model_validate(value or {})
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{_SETTING}: {path}: cannot be read ({type(error).__name__})") from error
    except YamlError as error:
        raise UserError(f"{_SETTING}: {path}: {error}") from error
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        raise UserError(f"{_SETTING}: {path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def _parts_of_endpoints(changes: JsonObject, path: tuple[str, ...]) -> Iterator[Mistake]:
    """Refuse changes to a part of an endpoint: the champion's recipe has the rest, such as the key that is sent."""
    for key in changes:
        *_, outer, name = ("", *str(key).split("."))
        if reach_of((name,)) in (Reach.ADDRESS, Reach.VARIABLE) or (outer, name) == ("vllm", "mode"):
            section = str(key).rpartition(".")[0]
            yield _mistake(".".join((*path, key)), f"a part of an endpoint; write {section} whole")


def _fields_in_use(section: JsonObject) -> JsonObject:
    """Return a section with the default address that it reaches, and without defaults that its other fields replace."""
    if section.get("mode") == "server":
        return {"url": _VLLM, **section}
    unused = {"url": _VLLM} if section.get("mode") in ("off", "colocate") else {}
    if section.get("judge") is not None:
        unused["parser"] = _PARSER
    return {key: value for key, value in section.items() if key not in unused or value != unused[key]}


def _name(key: str) -> str:
    return key.rpartition(".")[2]


def _reaches(key: str, value: Any) -> bool:
    """Return True for a field that makes its section reach something."""
    return _name(key).endswith("_env") or not needs_of({key: value}, of_stranger=True).is_empty


def _mistake(field: str, problem: str) -> Mistake:
    return Mistake("", f"{field}: {problem}", field)
