"""Data sets and models of the Hugging Face Hub: `org/name@REVISION`, or `org/name@REVISION/data/train-*.parquet`.

The revision is a commit, so that a run reads the same rows and loads the same weights tomorrow; a name without one is
refused. Files come into the Hub's own cache (HF_HOME); a private or gated repository needs HF_TOKEN.

Folders as repositories of the Hugging Face Hub: what was made here, given away. HF_TOKEN must open the account.
"""

import os
import re
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import yaml

from rubricworks.errors import TransientError, UserError

if TYPE_CHECKING:
    from huggingface_hub import HfApi

_SOURCE = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*/[\w.-]+?)(?:@(?P<revision>[^/]*)(?:/(?P<files>.+))?)?")
_OTHER_WEIGHTS = ["*.pth", "*.pt", "*.h5", "*.msgpack", "*.onnx", "*.gguf", "*.ot", "*.tflite", "original/*", "onnx/*"]
"""Files of a model that Transformers does not load, beside those that it does."""
_COMMIT = re.compile(r"[0-9a-f]{40}")
_FILES = frozenset(
    {".parquet", ".jsonl", ".json", ".csv", ".tsv", ".toml", ".txt", ".yaml", ".yml", ".arrow", ".tar", ".zip", ".gz"}
)
"""Endings by which a name is a file's, unlike the rest of `org/name.v2`."""
_SECONDS = 5
"""Of patience with a Hub that is asked for today's commit."""
_FROM_PAGE = "with the 40 digits of a commit from its page"
UNPINNED_DEFAULTS = frozenset({"lizhuang144/flan-t5-base-VG-factual-sg", "sentence-transformers/all-mpnet-base-v2"})
"""Parser and encoder of CAPTURE, which its reference code names without a commit: with one, its scores would be another
version's.
"""


class HubSource(NamedTuple):
    """A data set or a model at one commit."""

    name: str
    revision: str
    files: str = ""
    """Folder, file or pattern within it; empty for all of it."""

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
    if match["revision"] is not None:
        return _pinned(text, match)
    if Path(text).parent.exists() or _names_file(text):
        return None
    raise UserError(
        f"{text}: there is no such folder, and a data set of the Hub needs a revision, which pins its rows: "
        f"{text}@COMMIT, {_which_commit(text, 'data set')}"
    )


def hub_reading(text: str) -> str:
    """Advice after "there is no such file" for a name that may mean a data set of the Hub; empty for others."""
    match = _SOURCE.fullmatch(text)
    if match is None or match["revision"] is not None or _names_file(text):
        return ""
    return f"; if you mean a data set of the Hub, write {text}@COMMIT, {_FROM_PAGE}"


def pinned_source(text: str) -> HubSource | None:
    """Parse `org/name@COMMIT`, with files or without; None if it has no revision, or is a path here.

    Raises:
        UserError: its revision is no commit.
    """
    match = _SOURCE.fullmatch(text)
    return hub_source(text) if match is not None and match["revision"] is not None else None


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


def model_source(name: str, *, ask: bool = True) -> HubSource | None:
    """Parse a model's name; None if it is a folder's.

    Args:
        ask: ask the Hub for the commit that an error suggests.
    Raises:
        UserError: no such folder is here, and the name has no commit.
    """
    if name in UNPINNED_DEFAULTS or name.startswith(("/", ".", "~")) or Path(name).exists():
        return None
    match = _SOURCE.fullmatch(name)
    if match is None:
        raise UserError(
            f"{name}: there is no such folder, and a model of the Hub is named org/name@COMMIT, {_FROM_PAGE}"
        )
    if match["revision"] is not None:
        return _pinned(name, match)
    is_asked = ask and not Path(name).parent.exists()
    which = _which_commit(name, "model") if is_asked else _FROM_PAGE
    raise UserError(
        f"{name}: there is no such folder, and a model of the Hub needs a revision, which pins its weights: "
        f"{name}@COMMIT, {which}"
    )


def model_place(name: str) -> str:
    """Place of a model for Transformers: of `org/name@COMMIT` the folder in the cache, fetched first; else the folder.

    Raises:
        UserError: the name has no commit, the model or revision does not exist, or the token does not open it.
        TransientError: the Hub does not answer.
    """
    source = model_source(name)
    if source is None:
        return name
    folder = Path(_ask("snapshot_download", source, kind="model", ignore_patterns=[*_OTHER_WEIGHTS, "*.bin"]))
    if not any(folder.rglob("*.safetensors")):
        _ask("snapshot_download", source, kind="model", ignore_patterns=_OTHER_WEIGHTS)
    return str(folder / source.files)


def hub_files(source: HubSource) -> list[str]:
    """Names of the files that a source means, without fetching them.

    Raises:
        UserError, TransientError: as for `hub_folder`.
    """
    info = _ask("dataset_info", source)
    names = [sibling.rfilename for sibling in info.siblings or ()]
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


def _ask(request: str, source: HubSource, *, kind: str = "data set", **options: Any) -> Any:
    try:
        from huggingface_hub.errors import (
            GatedRepoError,
            HTTPError,
            RemoteEntryNotFoundError,
            RepositoryNotFoundError,
            RevisionNotFoundError,
        )
    except ImportError:
        raise UserError(
            f"{source.name}: what is on the Hub needs the package huggingface_hub; pip install huggingface_hub"
        ) from None
    token = os.environ.get("HF_TOKEN")
    hub = _hub()
    if request != "dataset_info":
        options["repo_type"] = kind.replace(" ", "")
    try:
        return getattr(hub, request)(source.name, revision=source.revision, **options)
    except RemoteEntryNotFoundError:
        raise UserError(f"{source.name}: the data set has no {options['filename']}, so it is no benchmark") from None
    except RevisionNotFoundError:
        raise UserError(f"{source.name}: the {kind} has no commit {source.revision}; take one from its page") from None
    except GatedRepoError:
        raise UserError(f"{source.name}: the {kind} is gated; accept its terms on the Hub and set HF_TOKEN") from None
    except RepositoryNotFoundError:
        opened = "HF_TOKEN does not open it" if token else "it is private, which needs HF_TOKEN"
        raise UserError(f"{source.name}: the Hub shows no such {kind}; check the name, or {opened}") from None
    except (OSError, HTTPError) as error:
        raise TransientError(
            f"{source.name}: the Hub does not give the {kind} ({type(error).__name__}); check the network, or give a "
            "folder of its files"
        ) from None


def _nothing(source: HubSource) -> UserError:
    return UserError(f"{source.name}: no file {source.files or 'at all'} is in it at commit {source.revision[:12]}")


def _pinned(text: str, match: re.Match[str]) -> HubSource:
    if not _COMMIT.fullmatch(match["revision"]):
        raise UserError(
            f"{text}: revision {match['revision']!r} may move; give the 40 digits of a commit from its page"
        )
    return HubSource(match["name"], match["revision"], match["files"] or "")


def _names_file(text: str) -> bool:
    return Path(text).suffix.lower() in _FILES


def _which_commit(name: str, kind: str) -> str:
    """Today's commit, or the way to it where the Hub does not tell."""
    try:
        from huggingface_hub.errors import HTTPError

        info = _hub().repo_info(name, repo_type=kind.replace(" ", ""), timeout=_SECONDS)
    except (ImportError, OSError, HTTPError, ValueError):
        return _FROM_PAGE
    return f"today {name}@{info.sha}"


def _hub() -> "HfApi":
    from huggingface_hub import HfApi

    return HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None, token=os.environ.get("HF_TOKEN") or None)


RepositoryKind = Literal["dataset", "model"]


def upload_folder(folder: Path, name: str, *, kind: RepositoryKind, private: bool, message: str) -> str:
    """Upload a folder as one commit of a repository, which is made if it is not there; return the commit.

    Files that the repository holds beside them stay.

    Raises:
        UserError: there is no token, it may not write there, or the name is none.
        TransientError: the Hub does not answer.
    """
    try:
        from huggingface_hub import HfApi
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, HTTPError
    except ImportError:
        raise UserError(f"{name}: the Hub needs the package huggingface_hub; pip install huggingface_hub") from None
    token = os.environ.get("HF_TOKEN")
    if not token:
        raise UserError(f"{name}: an upload to the Hub needs a token that may write; set HF_TOKEN")
    hub = HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None, token=token)
    try:
        if not hub.repo_exists(name, repo_type=kind):
            hub.create_repo(name, repo_type=kind, private=private, exist_ok=True)
        commit = hub.upload_folder(repo_id=name, repo_type=kind, folder_path=folder, commit_message=message)
    except HFValidationError as error:
        raise UserError(f"{name!r} is no name of a repository ({error}); write org/name") from None
    except HfHubHTTPError as error:
        status = error.response.status_code
        if status in (401, 403):
            raise UserError(
                f"{name}: HF_TOKEN may not write there (HTTP {status}); check the name and the token"
            ) from None
        if status == 404:
            raise UserError(f"{name}: the Hub knows no account of that name, or hides it; check the name") from None
        raise TransientError(f"{name}: the Hub does not take it (HTTP {status}); try again later") from None
    except (OSError, HTTPError) as error:
        raise TransientError(f"{name}: the Hub does not answer ({type(error).__name__}); check the network") from None
    return str(commit.oid)
