"""Folders as repositories of the Hugging Face Hub: what was made here, given away. HF_TOKEN must open the account."""

import os
from pathlib import Path
from typing import Literal

from rubricworks.errors import TransientError, UserError

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
