"""Login at an identity provider: OpenID Connect, authorisation code with PKCE.

The browser is sent to the provider with a state, a nonce and the digest of a verifier, which it keeps in a cookie. What
comes back counts only if the state is the cookie's, the provider redeems the code for the verifier, and the ID token
holds: its signature by a key of the provider's, its issuer, audience, nonce and expiry (OpenID Connect Core, 3.1.3.7).
A token is never taken from the browser. Keys are fetched anew when a token names one that is not known, so a provider
may rotate them at any time.
"""

import base64
import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import aiohttp

from rubricworks.platform_api.problems import Problem
from rubricworks.platform_api.project import Login
from rubricworks.platform_api.services.access.principals import LONGEST_NAME
from rubricworks.redaction import redact

if TYPE_CHECKING:
    from jwt import PyJWK

_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures by a key pair: `none` proves nothing, and HS256 would be made by whoever knows the client's secret."""
_SKEW_SECONDS = 30
_TIMEOUT = aiohttp.ClientTimeout(total=10)
_MOST_BYTES = 1 << 20
_CONFIGURATION = "/.well-known/openid-configuration"
Json = dict[str, Any]


class LoginRefused(Problem):
    """A refused login; the reason is shown to the person."""

    def __init__(self, detail: str) -> None:
        super().__init__(403, "Login refused", detail)


class ProviderAway(Problem):
    """The identity provider is unavailable; sessions and tokens stay valid."""

    def __init__(self, detail: str) -> None:
        super().__init__(503, "Identity provider unavailable", f"{detail}; who is logged in stays so, and tokens work")


@dataclass(frozen=True)
class Attempt:
    """A login that one browser started."""

    state: str
    nonce: str
    verifier: str
    """Verifier that redeems the code; the provider got its digest (RFC 7636)."""

    @classmethod
    def new(cls) -> "Attempt":
        """An attempt that nobody can guess."""
        return cls(*(secrets.token_urlsafe(32) for _ in range(3)))

    @classmethod
    def read(cls, cookie: str) -> "Attempt | None":
        """The attempt in a cookie; None if it is none."""
        parts = cookie.split(".")
        return cls(*parts) if len(parts) == 3 and all(parts) else None

    def __str__(self) -> str:
        return f"{self.state}.{self.nonce}.{self.verifier}"


@dataclass(frozen=True)
class Identity:
    """A person, as the provider's ID token names it."""

    name: str
    subject: str
    groups: frozenset[str]


class IdentityProvider:
    """The provider of one installation."""

    def __init__(self, login: Login, redirect_uri: str) -> None:
        """
        Args:
            redirect_uri: address of this service to which it sends browsers back.
        """
        self.login, self.redirect_uri = login, redirect_uri
        self._configuration: Json | None = None
        self._keys: dict[str | None, PyJWK] = {}

    @cached_property
    def _secret(self) -> str | None:
        return self.login.client_secret()

    async def authorisation_url(self, attempt: Attempt) -> str:
        """Address to which the browser is sent.

        Raises:
            ProviderAway: it does not answer.
        """
        challenge = base64.urlsafe_b64encode(hashlib.sha256(attempt.verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": self.login.client_id,
            "redirect_uri": self.redirect_uri,
            "scope": self.login.scopes,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        return _with_query(await self._endpoint("authorization_endpoint"), query)

    async def logout_url(self, back: str) -> str | None:
        """Address that ends the person's session at the provider; None if it has none, or does not answer.

        Args:
            back: address of this service to return to.
        """
        try:
            address = (await self._fetch_configuration()).get("end_session_endpoint")
        except ProviderAway:
            return None
        if not isinstance(address, str) or not self._is_safe(address):
            return None
        return _with_query(address, {"client_id": self.login.client_id, "post_logout_redirect_uri": back})

    async def redeem(self, attempt: Attempt, code: str) -> Identity:
        """Exchange a code for the identity of who logged in.

        Raises:
            LoginRefused: the code or the ID token does not hold.
            ProviderAway: it does not answer.
        """
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_uri,
            "code_verifier": attempt.verifier,
        }
        authentication = None
        if self._secret is None:
            form["client_id"] = self.login.client_id
        else:
            authentication = aiohttp.BasicAuth(_form_encoded(self.login.client_id), _form_encoded(self._secret))
        address = await self._endpoint("token_endpoint")
        status, answer = await self._ask("POST", address, data=form, auth=authentication)
        if status != 200:
            error = redact(str(answer.get("error", f"HTTP {status}")))[:100]
            raise LoginRefused(f"the identity provider does not take the code ({error}); log in again")
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise LoginRefused("the identity provider sent no ID token; add openid to login.scopes of the project file")
        claims = await self._claims(token, attempt)
        if self.login.groups_claim not in claims or self.login.name_claim not in claims:
            claims = await self._with_user_info(claims, answer.get("access_token")) | claims
        return self._identity(claims)

    async def _claims(self, token: str, attempt: Attempt) -> Json:
        """Claims of an ID token that holds."""
        import jwt  # where people log in at a provider only

        try:
            header = jwt.get_unverified_header(token)
            if header.get("alg") not in _ALGORITHMS:
                raise LoginRefused(f"the ID token is signed by {header.get('alg')!r}, which is no key pair's signature")
            claims: Json = jwt.decode(
                token,
                key=await self._key(header.get("kid")),
                algorithms=list(_ALGORITHMS),
                audience=self.login.client_id,
                issuer=self.login.issuer,
                leeway=_SKEW_SECONDS,
                options={"require": ["iss", "sub", "aud", "exp", "iat", "nonce"], "verify_iat": True},
            )
        except jwt.ExpiredSignatureError as error:
            raise LoginRefused("the ID token has expired; log in again, and compare the clocks of both") from error
        except jwt.InvalidAudienceError as error:
            raise LoginRefused(f"the ID token is for another client than {self.login.client_id}") from error
        except jwt.InvalidIssuerError as error:
            raise LoginRefused(f"the ID token is of another issuer than {self.login.issuer}") from error
        except (jwt.InvalidTokenError, jwt.PyJWKError, TypeError, ValueError) as error:
            raise LoginRefused(f"the ID token does not hold: {redact(str(error))[:200]}") from error
        if not hmac.compare_digest(str(claims["nonce"]).encode(), attempt.nonce.encode()):
            raise LoginRefused("the ID token is of another login; log in again")
        audiences = claims["aud"]
        if isinstance(audiences, list) and len(audiences) > 1 and claims.get("azp") != self.login.client_id:
            raise LoginRefused(f"the ID token was issued to {claims.get('azp')!r}, not to {self.login.client_id}")
        return claims

    async def _key(self, name: str | None) -> "PyJWK":
        """The provider's key by id; unknown ids refresh all keys."""
        from jwt import PyJWKSet

        if name not in self._keys:
            status, answer = await self._ask("GET", await self._endpoint("jwks_uri"))
            if status != 200:
                raise ProviderAway(f"the identity provider {self.login.issuer} does not give its keys (HTTP {status})")
            keys = [key for key in PyJWKSet.from_dict(answer).keys if key.public_key_use in (None, "sig")]
            self._keys = {key.key_id: key for key in keys}
            if len(keys) == 1:  # then a token need not name it
                self._keys.setdefault(None, keys[0])
        if name not in self._keys:
            raise LoginRefused("the ID token is signed by a key that the identity provider does not have")
        return self._keys[name]

    async def _with_user_info(self, claims: Json, access_token: object) -> Json:
        """Claims of the provider's userinfo endpoint; another subject's are refused."""
        address = (await self._fetch_configuration()).get("userinfo_endpoint")
        if not isinstance(address, str) or not self._is_safe(address) or not isinstance(access_token, str):
            return {}
        status, answer = await self._ask("GET", address, headers={"Authorization": f"Bearer {access_token}"})
        if status != 200:
            return {}
        if answer.get("sub") != claims["sub"]:
            raise LoginRefused("the identity provider's userinfo is of another person than its ID token")
        return answer

    def _identity(self, claims: Json) -> Identity:
        claim = self.login.name_claim
        name = claims.get(claim)
        if not isinstance(name, str) or not name.strip():
            raise LoginRefused(f"the identity provider tells no {claim!r} of you; set login.name_claim of the project")
        # The holder of an address that is not verified may change it at will.
        if claim == "email" and claims.get("email_verified") not in (True, "true"):
            raise LoginRefused(
                f"the identity provider has not verified the address {name}; an admin may set login.name_claim of the "
                "project file to a claim that nobody changes for themselves, such as preferred_username"
            )
        if "@" not in name:  # a token may have this name
            name = f"{name}@{urlsplit(self.login.issuer).hostname}"
        if len(name) > LONGEST_NAME or not name.isprintable() or any(letter in name for letter in ": "):
            raise LoginRefused(f"the identity provider's {claim!r} of you is no name: it is too long, or has spaces")
        groups = claims.get(self.login.groups_claim, [])
        named = groups if isinstance(groups, list) else [groups]
        return Identity(name, str(claims["sub"]), frozenset(group for group in named if isinstance(group, str)))

    async def _endpoint(self, name: str) -> str:
        address = (await self._fetch_configuration()).get(name)
        if not isinstance(address, str) or not self._is_safe(address):
            raise ProviderAway(f"{self.login.issuer}{_CONFIGURATION} has no {name} that a login may use")
        return address

    def _is_safe(self, address: str) -> bool:
        """Return True for an address that nobody on the way can read; a provider on this machine may do without."""
        return address.startswith("https://") or urlsplit(self.login.issuer).scheme == "http"

    async def _fetch_configuration(self) -> Json:
        if self._configuration is None:
            status, answer = await self._ask("GET", self.login.issuer.rstrip("/") + _CONFIGURATION)
            if status != 200:
                raise ProviderAway(f"the identity provider {self.login.issuer} does not answer (HTTP {status})")
            if answer.get("issuer") != self.login.issuer:
                said = redact(str(answer.get("issuer")))[:200]
                raise ProviderAway(f"login.issuer is {self.login.issuer}, and the provider there calls itself {said}")
            self._configuration = answer
        return self._configuration

    async def _ask(self, method: str, address: str, **options: Any) -> tuple[int, Json]:
        """Status and JSON of an answer; redirects are not followed."""
        try:
            async with (
                aiohttp.ClientSession(timeout=_TIMEOUT, trust_env=True, cookie_jar=aiohttp.DummyCookieJar()) as client,
                client.request(method, address, allow_redirects=False, **options) as answer,
            ):
                content = bytearray()
                async for chunk in answer.content.iter_chunked(1 << 16):
                    content += chunk
                    if len(content) > _MOST_BYTES:
                        raise ProviderAway(f"{address} answers with more than {_MOST_BYTES >> 20} MB")
                return answer.status, _json(bytes(content))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            reason = type(error).__name__ if not str(error) else redact(str(error))[:200]
            raise ProviderAway(f"the identity provider {self.login.issuer} does not answer ({reason})") from error


def _json(content: bytes) -> Json:
    try:
        body = json.loads(content)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _with_query(address: str, query: dict[str, str]) -> str:
    return f"{address}{'&' if '?' in address else '?'}{urlencode(query)}"


def _form_encoded(text: str) -> str:
    """A client's name or secret as Basic authentication takes it (RFC 6749, 2.3.1)."""
    return urlencode({"": text})[1:]
