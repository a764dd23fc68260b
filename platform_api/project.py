"""The project of an installation: its members, their login, its budget and quotas.

    # the file that RUBRICWORKS_PROJECT names
    name: captions
    roles:                                  # scope → groups of the identity provider, or of Kubernetes
      viewer: [captions-readers]
      runner: [captions, "system:serviceaccounts:captions"]
      approver: [captions-leads]
      admin: [platform]
    login:
      issuer: https://login.example.org/realms/main
      client_id: rubricworks-captions
      client_secret_env: RUBRICWORKS_OIDC_SECRET
    kubernetes: {audience: rubricworks-captions}
    budget: {dollars_a_month: 500}
    quotas: {runs_at_once: 4, gigabytes: 2000}

One installation serves one project: its API has the project's own database, the keys of its own S3 prefix, and its own
account at Kubeflow, so no query of it can reach another project's rows, and no process holds two projects' keys.
"""

import os
import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from rubricworks.environment import is_loopback
from rubricworks.errors import UserError
from rubricworks.platform_api.services.access.principals import SCOPES
from rubricworks.strict_yaml import YamlError, parse_yaml

_SETTING = "RUBRICWORKS_PROJECT"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")
GroupName = Annotated[str, Field(min_length=1, max_length=300)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Login(_Section):
    """Login of people: OpenID Connect, authorisation code with PKCE."""

    issuer: str
    """Issuer, as in its ID tokens; its configuration is at `/.well-known/openid-configuration` below."""
    client_id: str = Field(min_length=1)
    client_secret_env: str | None = None
    """Variable with the client's secret; None for a public client, which PKCE protects."""
    scopes: str = "openid profile email"
    """Requested scopes; some providers return groups only if `groups` is requested."""
    name_claim: str = "email"
    """Claim that names a person in the audit log. People must not be able to change it: it distinguishes the second
    person of an approval. An e-mail address counts only where the provider says that it is verified.
    """
    groups_claim: str = "groups"
    session_hours: float = Field(default=12, gt=0, le=24)
    """Lifetime of a browser's session; then the provider is asked again."""

    @field_validator("issuer")
    @classmethod
    def _is_https(cls, issuer: str) -> str:
        parts = urlsplit(issuer)
        is_here = parts.hostname == "localhost" or is_loopback(parts.hostname)
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_here)
        if not is_safe or not parts.hostname or parts.query or parts.fragment:
            raise ValueError("write https://host/path, as the provider's ID tokens have it in `iss`")
        return issuer

    def client_secret(self) -> str | None:
        """The client's secret.

        Raises:
            UserError: its variable is not set.
        """
        if self.client_secret_env is None:
            return None
        secret = os.environ.get(self.client_secret_env, "").strip()
        if not secret:
            raise UserError(f"{self.client_secret_env} is not set: login.client_secret_env of {_SETTING} names it")
        return secret


class Kubernetes(_Section):
    """Access of pods and programs: a token of their service account, which the cluster reviews."""

    audience: str = Field(min_length=1)
    """Audience of their tokens; a token for another one, such as the cluster's own, is refused."""
    url: str = "https://kubernetes.default.svc"
    token_file: Path = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
    """The service's own token, which may create TokenReviews."""
    ca_file: Path = Path("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt")


class ProjectBudget(_Section):
    """Budget for calls."""

    dollars_a_month: float = Field(gt=0)
    """Dollars of the runs started in a calendar month (UTC). A run has its own caps; this one refuses the next
    submission.
    """


class Quotas(_Section):
    """Quotas; None is unbounded."""

    runs_at_once: int | None = Field(default=None, ge=1)
    gigabytes: float | None = Field(default=None, gt=0)
    """Of all runs' files."""


class Project(_Section):
    """A project."""

    name: str
    roles: dict[Literal["viewer", "runner", "approver", "admin"], tuple[GroupName, ...]] = {}
    login: Login | None = None
    kubernetes: Kubernetes | None = None
    budget: ProjectBudget | None = None
    quotas: Quotas = Quotas()

    @field_validator("name")
    @classmethod
    def _is_label(cls, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError("write at most 40 small letters, digits and -, a letter or digit first and last")
        return name

    def scope_of(self, groups: frozenset[str]) -> str | None:
        """Scope of a caller in these groups, such as `viewer` or `runner+approver`; None if they map to nothing."""
        named = [scope for scope in SCOPES if groups.intersection(self.roles.get(scope, ()))]  # type: ignore[call-overload]
        if "admin" in named:
            return "admin"
        if len(named) > 1:  # every other scope may read
            named = [scope for scope in named if scope != "viewer"]
        return "+".join(named) or None

    def known_groups(self, groups: frozenset[str]) -> list[str]:
        """Groups that have a role here; a session stores no others."""
        return sorted(groups.intersection(*([name for names in self.roles.values() for name in names],)))


def load_project(path: str | None) -> Project | None:
    """Read the operator's file; None without one.

    Raises:
        UserError: it cannot be read, has mistakes, or nobody could log in.
    """
    if path is None:
        return None
    try:
        value = parse_yaml(Path(path).read_text(encoding="utf-8")).value
        project = Project.model_validate(value or {})
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{_SETTING}: {path}: cannot be read ({type(error).__name__})") from error
    except YamlError as error:
        where = f"line {error.line}: " if error.line else ""
        raise UserError(f"{_SETTING}: {path}: {where}{error}") from error
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise UserError(f"{_SETTING}: {path}: {where}: {first['msg'].removeprefix('Value error, ')}") from error
    if (project.login or project.kubernetes) and not any(project.roles.values()):
        raise UserError(f"{_SETTING}: {path}: roles: no group has a role, so nobody could log in; name one")
    return project
