"""Checks of a run's external needs: models, endpoints, data, budget, tracking.

`doctor` and `run` make them on this machine, the stage `preflight` on a cluster, with the same messages. A `require_…`
function returns a short description of what it found, or raises UserError.
"""

import asyncio
import importlib.util
import os
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from rubricworks.data.hub import HubSource, hub_files, hub_source, model_source
from rubricworks.data.questions import QuestionColumns, QuestionEntry, question_entries
from rubricworks.environment import fill, names_in
from rubricworks.errors import UserError
from rubricworks.grading import check_gives_logprobs
from rubricworks.llm import Budget, Endpoint, check_endpoint, check_sees_images, read_spending
from rubricworks.llm.spending import SPENDING_FILE
from rubricworks.runtime.admission import SCENE_WORLD
from rubricworks.runtime.store.source_files import kind_and_place, local_source, stored_files
from rubricworks.storage import is_remote, local_path
from rubricworks.tracking import TrackingConfig, check_tracking, tracking_uri
from rubricworks.tracking.installation import VARIABLE, promoting_api

TINY = ("tiny", "tiny_text")
"""Students that are built from a configuration, with nothing to download."""
_HUB = "https://huggingface.co"
_HUB_SECONDS = 15


@dataclass(frozen=True)
class Check:
    """Result of one check; `problem` is None if it passed."""

    name: str
    problem: str | None
    detail: str = ""


def run_check(name: str, require: Callable[[], str]) -> Check:
    """Call a `require_…` function and return its detail, or its UserError as the problem."""
    try:
        return Check(name, None, require())
    except UserError as error:
        return Check(name, str(error))


def require_parts(stages: Sequence[str], namespace: str | None) -> str:
    """Return the Kubernetes version of the cluster on which `fan_out` divides these stages into parts.

    Raises: UserError: the cluster does not answer, or its Kubernetes is too old for `fan_out`.
    """
    from rubricworks.kubernetes.connection import OLDEST, connect, report_api_errors

    cluster = connect(namespace, patience=30)
    with report_api_errors("read the cluster's version", cluster.namespace):
        version = cluster.version()
    number = re.match(r"v?(\d+)\.(\d+)", version)
    if number and (int(number[1]), int(number[2])) < OLDEST:
        needed = ".".join(map(str, OLDEST))
        names = ", ".join(stages)
        raise UserError(f"{version} is older than {needed}, which fan_out of {names} needs; upgrade, or leave it out")
    return version


class DataSource(BaseModel):
    """Source of a run's samples, as the recipe's data section gives it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["images", "questions", "prompts"]
    source: str
    allowed_hosts: tuple[str, ...] = ()
    columns: QuestionColumns = QuestionColumns()
    more: tuple["DataSource", ...] = ()
    """Further sources of the same run."""


def count_items(data: DataSource) -> int:
    """Count the usable images, questions or prompts in a run's sources without opening or fetching them.

    Raises:
        UserError: a source cannot be read or holds none.
    """
    return _count_items(data) + sum(map(count_items, data.more))


def _count_items(data: DataSource) -> int:
    source = fill(data.source, "data.source")
    if is_remote(place := kind_and_place(source)[1]):
        return len(stored_files(place)[1])
    if on_hub := hub_source(place):
        return len(hub_files(on_hub))
    if data.kind == "prompts":
        from rubricworks.data.prompts import PromptEntry, prompt_entries

        return sum(isinstance(entry, PromptEntry) for entry in prompt_entries(source, seed=0))
    if data.kind == "questions":
        return sum(isinstance(entry, QuestionEntry) for entry in question_entries(source, data.columns))
    from rubricworks.data.downloads.hosts import AllowedHosts
    from rubricworks.data.source_entries import ImageEntry
    from rubricworks.data.sources import image_entries

    screened = AllowedHosts(data.allowed_hosts).screen(image_entries(source), source)
    return sum(isinstance(entry, ImageEntry) for entry in screened)


def require_file(source: str, field: str) -> str:
    """Fetch a file that a recipe names, from a path, a store or the Hub.

    Args:
        field: name of the recipe's field, for messages.
    Raises:
        UserError: no file is there, or the store or the Hub refuses or does not answer.
    """
    path = local_path(local_source(source, field))
    if not path.is_file():
        raise UserError(f"{source}: no file is there; pods read a place such as s3://bucket/file")
    return f"{source} is there"


def require_endpoint(endpoint: Endpoint, *, sees_images: bool = False, logprobs_of: Endpoint | None = None) -> str:
    """Send one request to a model endpoint.

    Args:
        sees_images: the model is shown images: ask it about a picture, too.
        logprobs_of: the endpoint as where its log-probabilities are used: ask it for some, too.
    Raises:
        UserError: the endpoint does not answer, or refuses, or its model does not see, or gives no log-probabilities.
    """
    asyncio.run(check_endpoint(endpoint))
    if sees_images:
        asyncio.run(check_sees_images(endpoint))
    if logprobs_of:
        _require_logprobs(logprobs_of)
    if endpoint.api_key_env or any(map(names_in, endpoint.urls)):
        return f"{endpoint.label} answers, with what the environment holds"
    return f"{endpoint.label} answers"


def _require_logprobs(judge: Endpoint) -> None:
    try:
        asyncio.run(check_gives_logprobs(judge))
    except UserError as error:
        own = "the scene world's " if judge.urls[0] in SCENE_WORLD else ""
        raise UserError(f"{own}{error}") from None


def require_tracking(tracking: TrackingConfig, runs: Path) -> str:
    """Reach the MLflow server or store; tracking without MLflow installed is off, not an error."""
    is_on = check_tracking(tracking, runs)
    return tracking_uri(tracking, runs) if is_on else "off: MLflow is not installed"


def promotion_checks() -> Iterator[Check]:
    """Check that a run could request its promotion, if an installation's API is named."""
    if os.environ.get(VARIABLE, "").strip():
        yield run_check("promotion", _require_promoting_api)


def _require_promoting_api() -> str:
    api = promoting_api()
    assert api is not None
    return f"requested from {api.url}"


def require_model(name: str) -> str:
    """Look for a model in its folder, the hub's cache or the hub, without reading its weights.

    Raises:
        UserError: the model is in none of them, its name has no commit, or the hub refuses access.
    """
    if name in TINY:
        return "built from its configuration"
    if Path(name).is_dir() or name.startswith(("/", ".")):
        if not (Path(name) / "config.json").is_file():
            raise UserError(
                f"{name}: no model is there (no config.json); give its folder, or org/name@COMMIT of the hub"
            )
        return f"{name} is there"
    source = model_source(name)
    assert source is not None
    cached = f"models--{source.name.replace('/', '--')}/snapshots/{source.revision}/config.json"
    if (_hub_cache() / cached).is_file():
        return f"{name} is in the cache"
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
        raise UserError(f"{name} is not in {_hub_cache()}, and HF_HUB_OFFLINE is set: put it there, or give its folder")
    return _require_on_hub(name, source)


def _hub_cache() -> Path:
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    return Path(os.environ.get("HF_HUB_CACHE") or home / "hub")


def _require_on_hub(name: str, source: HubSource) -> str:
    hub = (os.environ.get("HF_ENDPOINT") or _HUB).rstrip("/")
    place = f"{hub}/{source.name}/resolve/{source.revision}/config.json"
    request = urllib.request.Request(place, method="HEAD")
    if token := os.environ.get("HF_TOKEN"):
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=_HUB_SECONDS):
            return f"{name} is at {hub}"
    except urllib.error.HTTPError as error:
        refused = error.code in (401, 403)
        problem = "does not let us read it" if refused else "has no such model"
        advice = "set HF_TOKEN, and accept its licence there" if refused else "give another, or the folder of one"
        raise UserError(f"{name}: {hub} {problem} ({error.code}); {advice}") from None
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise UserError(
            f"{name}: {hub} does not answer ({reason}); give a folder that the pods can mount, or fill HF_HOME"
        ) from None


def require_packages(packages: Mapping[str, str]) -> str:
    """Look for packages in this environment, without importing them.

    Args:
        packages: package → what needs it.
    Raises:
        UserError: names those that are not installed.
    """
    if missing := [f"{name} (for {need})" for name, need in packages.items() if not importlib.util.find_spec(name)]:
        raise UserError(
            f"this image lacks {', '.join(missing)}; take the trainer image of this version (cluster.images.trainer)"
        )
    return ", ".join(packages)


def require_budget(budget: Budget, run: Path) -> str:
    """Compare the run's spending so far with its caps.

    Raises:
        UserError: earlier attempts reached a cap.
    """
    rows = read_spending(run / SPENDING_FILE)
    tokens = sum(row["prompt_tokens"] + row["completion_tokens"] for row in rows)
    dollars = sum(row["cost"] for row in rows)
    if budget.tokens is not None and tokens >= budget.tokens:
        raise UserError(f"budget.tokens is {budget.tokens:,}, and {tokens:,} are spent; raise it")
    if budget.dollars is not None and dollars >= budget.dollars:
        raise UserError(f"budget.dollars is {budget.dollars:,.2f}, and {dollars:,.2f} are spent; raise it")
    caps = [f"{budget.tokens:,} tokens"] if budget.tokens is not None else []
    caps += [f"${budget.dollars:,.2f}"] if budget.dollars is not None else []
    return f"{tokens:,} tokens and ${dollars:,.2f} spent of {' and '.join(caps) or 'as much as it takes'}"
