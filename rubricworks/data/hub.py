"""Data sets of the Hugging Face Hub as sources: `org/name@REVISION`, or `org/name@REVISION/data/train-*.parquet`.

The revision is a commit, so that a run reads the same rows tomorrow. Files come into the Hub's own cache (HF_HOME); a
private or gated data set needs HF_TOKEN.
"""

import os
import re
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from rubricworks.errors import TransientError, UserError

_SOURCE = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*/[\w.-]+?)(?:@(?P<revision>[^/]*)(?:/(?P<files>.+))?)?")
_COMMIT = re.compile(r"[0-9a-f]{40}")


class HubSource(NamedTuple):
    """A data set at one commit."""

    name: str
    revision: str
    files: str = ""
    """Folder, file or pattern within the data set; empty for all of it."""

    @property
    def patterns(self) -> list[str] | None:
        return [self.files, f"{self.files.rstrip('/')}/*"] if self.files else None


def hub_source(text: str) -> HubSource | None:
    """Parse a source; None if it is a path here, or no data set of the Hub.

    Raises:
        UserError: it names a data set without a revision, or with one that is no commit.
    """
    match = _SOURCE.fullmatch(text)
    if match is None or Path(text).exists():
        return None
    if match["revision"] is None and (Path(text).parent.exists() or Path(text).suffix):
        return None
    if match["revision"] is None:
        raise UserError(
            f"{text}: there is no such folder, and a data set of the Hub needs a revision, which pins its rows: "
            f"{text}@COMMIT, with the 40 digits of a commit from its page"
        )
    if not _COMMIT.fullmatch(match["revision"]):
        raise UserError(
            f"{text}: revision {match['revision']!r} may move; give the 40 digits of a commit from the data set's page"
        )
    return HubSource(match["name"], match["revision"], match["files"] or "")


def hub_folder(source: HubSource) -> Path:
    """Fetch the files that are not in the cache yet; return the folder, file or pattern that the source names.

    Raises:
        UserError: the data set, revision or files do not exist, or the token does not open them.
        TransientError: the Hub does not answer.
    """
    folder = Path(_ask("snapshot_download", source, allow_patterns=source.patterns))
    if source.files and not list(folder.glob(source.files)):
        raise _nothing(source)
    return folder / source.files


def hub_files(source: HubSource) -> list[str]:
    """Names of the files that a source means, without fetching them.

    Raises:
        UserError, TransientError: as for `hub_folder`.
    """
    info = _ask("dataset_info", source)
    names = [one.rfilename for one in info.siblings or ()]
    patterns = source.patterns
    names = [name for name in names if patterns is None or any(fnmatch(name, pattern) for pattern in patterns)]
    if not names:
        raise _nothing(source)
    return names


def benchmark_tasks(name: str, revision: str | None = None) -> list[str]:
    """Ids of a benchmark's tasks, from the file `eval.yaml` that makes a data set one.

    Raises:
        UserError: the data set is no benchmark, or as for `hub_folder`.
        TransientError: the Hub does not answer.
    """
    path = _ask("hf_hub_download", HubSource(name, revision or "main"), filename="eval.yaml")
    try:
        return [str(task["id"]) for task in yaml.safe_load(Path(path).read_bytes())["tasks"]]
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise UserError(f"{name}: its eval.yaml names no tasks ({type(error).__name__})") from None


def _ask(request: str, source: HubSource, **options: Any) -> Any:
    try:
        from huggingface_hub import HfApi
        from huggingface_hub.errors import (
            GatedRepoError,
            HTTPError,
            RemoteEntryNotFoundError,
            RepositoryNotFoundError,
            RevisionNotFoundError,
        )
    except ImportError:
        raise UserError(
            f"{source.name}: data sets of the Hub need the package huggingface_hub; pip install huggingface_hub"
        ) from None
    token = os.environ.get("HF_TOKEN") or None
    hub = HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None, token=token)
    if request != "dataset_info":
        options["repo_type"] = "dataset"
    try:
        return getattr(hub, request)(source.name, revision=source.revision, **options)
    except RemoteEntryNotFoundError:
        raise UserError(f"{source.name}: the data set has no {options['filename']}, so it is no benchmark") from None
    except RevisionNotFoundError:
        raise UserError(
            f"{source.name}: the data set has no commit {source.revision}; take one from its page"
        ) from None
    except GatedRepoError:
        raise UserError(f"{source.name}: the data set is gated; accept its terms on the Hub and set HF_TOKEN") from None
    except RepositoryNotFoundError:
        opened = "HF_TOKEN does not open it" if token else "it is private, which needs HF_TOKEN"
        raise UserError(f"{source.name}: the Hub shows no such data set; check the name, or {opened}") from None
    except (OSError, HTTPError) as error:
        raise TransientError(
            f"{source.name}: the Hub does not give the data set ({type(error).__name__}); check the network, or give a "
            "folder of its files"
        ) from None


def _nothing(source: HubSource) -> UserError:
    return UserError(f"{source.name}: no file {source.files or 'at all'} is in it at commit {source.revision[:12]}")
