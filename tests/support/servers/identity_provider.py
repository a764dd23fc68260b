"""An identity provider whose ID tokens a test makes: what no certified provider would send."""

import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT = "rubricworks-captions"
Json = dict[str, Any]


class StandInProvider:
    """A provider on a port of its own, with its keys and the next ID token."""

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer
        self.keys: dict[str, rsa.RSAPrivateKey] = {}
        self.configuration: Json = {
            "issuer": issuer,
            **{f"{name}_endpoint": f"{issuer}/{name}" for name in ("authorization", "token", "userinfo")},
            "jwks_uri": f"{issuer}/keys",
            "end_session_endpoint": f"{issuer}/end",
        }
        self.token = ""
        """The next ID token."""
        self.user_info: Json = {}
        self.challenges: dict[str, str] = {}
        """Code → digest of the verifier that redeems it, once."""
        self.is_down = False
        self.add_key("first")

    def add_key(self, name: str) -> rsa.RSAPrivateKey:
        """Sign by a new key."""
        self.keys[name] = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        return self.keys[name]

    def claims(self, nonce: str | None, **changes: Any) -> Json:
        """Claims of an ID token that holds, but for the changes; None leaves one out."""
        now = int(time.time())
        claims = {"iss": self.issuer, "sub": "1", "aud": CLIENT, "exp": now + 300, "iat": now, "nonce": nonce}
        claims |= {"email": "ada@example.org", "email_verified": True, "groups": ["captions"], **changes}
        return {name: value for name, value in claims.items() if value is not None}

    def sign(self, claims: Json, key: str = "first") -> str:
        """An ID token with these claims."""
        import jwt

        return jwt.encode(claims, self.keys[key], "RS256", headers={"kid": key})

    def answer(self, path: str, form: dict[str, str]) -> tuple[int, Json]:
        """Status and body of an answer."""
        if self.is_down:
            return 500, {}
        if path == "/.well-known/openid-configuration":
            return 200, self.configuration
        if path == "/keys":
            from jwt.algorithms import RSAAlgorithm

            public = {name: RSAAlgorithm.to_jwk(key.public_key()) for name, key in self.keys.items()}
            return 200, {"keys": [{**json.loads(key), "kid": name, "use": "sig"} for name, key in public.items()]}
        if path == "/userinfo":
            return 200, self.user_info
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        if self.challenges.pop(form.get("code", ""), "") != base64.urlsafe_b64encode(digest).rstrip(b"=").decode():
            return 400, {"error": "invalid_grant"}
        return 200, {"token_type": "Bearer", "access_token": "opaque", "id_token": self.token}


@contextmanager
def identity_provider() -> Iterator[StandInProvider]:
    """A provider that runs while the block does."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer({})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self.answer({name: values[0] for name, values in parse_qs(body).items()})

        def answer(self, form: dict[str, str]) -> None:
            status, body = provider.answer(urlsplit(self.path).path, form)
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider = StandInProvider(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
