"""Pods and programs of a cluster: the token of their service account, which the cluster's API reviews (TokenReview).

A token counts only for the audience of this installation, so that a program which is sent one cannot use it elsewhere,
nor one made for another installation be used here. Roles come of the account's groups, as a person's come of the
provider's: `system:serviceaccounts:NAMESPACE` has every account of a namespace. A name is a group of its own here, so
one account can have a role as well.
"""

import ssl
import time
from collections import OrderedDict
from typing import Any

import aiohttp

from rubricworks.platform_api.problems import Problem
from rubricworks.platform_api.project import Kubernetes, Project
from rubricworks.platform_api.services.access.principals import LONGEST_NAME, Principal
from rubricworks.platform_api.services.access.tokens import digest_of
from rubricworks.redaction import redact

_FRESH_SECONDS = 20.0
"""Time for which a review holds: an account that is deleted calls no longer than that."""
_MOST_REVIEWS = 1_000
_TIMEOUT = aiohttp.ClientTimeout(total=10)


class TokenReviews:
    """Reviews of tokens by one cluster."""

    def __init__(self, project: Project, kubernetes: Kubernetes) -> None:
        self._project, self._kubernetes = project, kubernetes
        self._reviews: OrderedDict[str, tuple[float, Principal | None]] = OrderedDict()

    async def principal(self, token: str) -> Principal | None:
        """Principal of a service account's token; None if the cluster does not authenticate it for this installation.

        Raises:
            Problem: the account has no role here, or the cluster does not answer.
        """
        digest = digest_of(token)
        until, known = self._reviews.pop(digest, (0.0, None))
        if time.monotonic() >= until:
            until, known = time.monotonic() + _FRESH_SECONDS, await self._review(token)
        self._reviews[digest] = until, known
        while len(self._reviews) > _MOST_REVIEWS:
            self._reviews.popitem(last=False)
        return known

    async def _review(self, token: str) -> Principal | None:
        audience = self._kubernetes.audience
        status = (await self._ask({"token": token, "audiences": [audience]})).get("status") or {}
        # A cluster that knows no audiences returns none, and would take its own tokens for ours.
        if not status.get("authenticated") or audience not in (status.get("audiences") or ()):
            return None
        user = status.get("user") or {}
        name = str(user.get("username") or "")
        scope = self._project.scope_of(frozenset([name, *map(str, user.get("groups") or ())]))
        if not name or len(name) > LONGEST_NAME:
            return None
        if scope is None:
            detail = f"{name} is in no group that has a role in the project {self._project.name}; an admin names one"
            raise Problem(403, "Forbidden", f"{detail} in `roles` of the project file")
        return Principal(name, scope)

    async def _ask(self, spec: dict[str, Any]) -> dict[str, Any]:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        settings = self._kubernetes
        try:
            own = settings.token_file.read_text(encoding="ascii").strip()
            context = ssl.create_default_context(cafile=str(settings.ca_file)) if settings.ca_file.is_file() else True
            async with (
                aiohttp.ClientSession(timeout=_TIMEOUT, cookie_jar=aiohttp.DummyCookieJar()) as client,
                client.post(
                    f"{settings.url.rstrip('/')}/apis/authentication.k8s.io/v1/tokenreviews",
                    json=body,
                    headers={"Authorization": f"Bearer {own}"},
                    ssl=context,
                    allow_redirects=False,
                ) as answer,
            ):
                if answer.status not in (200, 201):
                    why = "; bind its account to system:auth-delegator" if answer.status in (401, 403) else ""
                    raise _away(f"it answers HTTP {answer.status}{why}")
                review: dict[str, Any] = await answer.json(content_type=None)
                return review
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise _away(redact(str(error))[:200] or type(error).__name__) from error


def _away(reason: str) -> Problem:
    return Problem(503, "Cluster unavailable", f"the cluster does not review this token ({reason}); other tokens work")
