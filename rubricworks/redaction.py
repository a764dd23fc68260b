"""Secrets in texts: names that hold one, texts that show one, and the same texts without it."""

import re

_SECRET_WORDS = {
    *("KEY", "APIKEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PWD", "PASS", "PASSPHRASE", "CREDENTIAL"),
    *("CREDENTIALS", "COOKIE"),
}
_REFERENCES = {"ENV", "FILE", "PATH", "DIR", "NAME", "URL", "URI"}
"""Last words of names that say where a secret is, such as `AWS_SHARED_CREDENTIALS_FILE`."""
_USER_IN_URL = re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.-]*://)[^/?#\s\"']+@", re.IGNORECASE)
_SECRET_IN_QUERY = re.compile(
    r"(?P<name>[?&][\w-]*(?:api[_-]?key|token|secret|password|signature|credential)=)[^&\s\"']+", re.IGNORECASE
)
_KEY = re.compile(
    r"\b(?:sk-|sk_live_|hf_|rw_|ghp_|gho_|github_pat_|glpat-|xox[abp]-|nvapi-|AIza)[\w-]{12,}"
    r"|\bAKIA[0-9A-Z]{16}\b|\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
_KEY_SIGNS = (
    *("sk-", "sk_live_", "hf_", "rw_", "ghp_", "gho_", "github_pat_", "glpat-", "xox", "nvapi-", "AIza", "AKIA", "eyJ"),
    "PRIVATE KEY",
)
"""One of these is in every match of `_KEY`; to look for them takes a fraction of its time."""
_ASSIGNMENT = re.compile(r"(?P<name>[\w-]+)(?P<sign>[\"']?\s*[:=]\s*)(?P<value>[\"'][^\"']*[\"']|[^\s,}\]]+)")
HIDDEN = "***"


def is_secret_name(name: str) -> bool:
    """Return True for the name of a variable or field that holds a secret, such as `OPENAI_API_KEY`."""
    words = re.split(r"[^A-Z0-9]+", name.upper())
    return bool(_SECRET_WORDS & {*words}) and words[-1] not in _REFERENCES


def find_secret(text: str) -> str | None:
    """Return a noun phrase for the secret that a text shows; None if it shows none."""
    if _USER_IN_URL.search(text):
        return "the user or password of a URL"
    if _SECRET_IN_QUERY.search(text) or _KEY.search(text):
        return "a key"
    return None


def redact(text: str) -> str:
    """Return the text with its users and passwords of URLs and its keys hidden."""
    if "://" in text:
        text = _USER_IN_URL.sub(rf"\g<scheme>{HIDDEN}@", text)
    if "=" in text:
        text = _SECRET_IN_QUERY.sub(rf"\g<name>{HIDDEN}", text)
    return _KEY.sub(HIDDEN, text) if any(sign in text for sign in _KEY_SIGNS) else text


def redact_assignments(text: str) -> str:
    """Return the text as `redact` does, with the values of `name=value` and `name: value` hidden for secret names."""

    def hide(match: re.Match[str]) -> str:
        return f"{match['name']}{match['sign']}{HIDDEN}" if is_secret_name(match["name"]) else match[0]

    return redact(_ASSIGNMENT.sub(hide, text))
