"""Secrets in texts: names that hold one, texts that show one, and the same texts without it.

The texts are anybody's, such as the path of a request, so each pattern takes time in proportion to a text's
length: what may be long begins at one place of each run of its characters.
"""

import re

_SECRET_WORDS = {
    *("KEY", "APIKEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PWD", "PASS", "PASSPHRASE", "CREDENTIAL"),
    *("CREDENTIALS", "COOKIE"),
}
_REFERENCES = {"ENV", "FILE", "PATH", "DIR", "NAME", "URL", "URI"}
"""Last words of names that say where a secret is, such as `AWS_SHARED_CREDENTIALS_FILE`."""
_USER_IN_URL = re.compile(r"(?<=[a-z0-9+.-])://[^/?#\s\"']+@", re.IGNORECASE)
_SECRET_IN_QUERY = re.compile(
    r"(?P<name>[?&][\w-]*(?:api[_-]?key|token|secret|password|signature|credential)=)[^&\s\"']+", re.IGNORECASE
)
_KEY = re.compile(
    r"\b(?:sk-|sk_live_|hf_|rw_|ghp_|gho_|github_pat_|glpat-|xox[abp]-|nvapi-|AIza)[\w-]{12,}"
    r"|\bAKIA[0-9A-Z]{16}\b|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|(?<![\w-])(?=[\w-]*?\beyJ[\w-]{8})[\w-]++\.eyJ[\w-]{8,}+\.[\w-]*"
)
_KEY_SIGNS = (
    *("sk-", "sk_live_", "hf_", "rw_", "ghp_", "gho_", "github_pat_", "glpat-", "xox", "nvapi-", "AIza", "AKIA", "eyJ"),
    "PRIVATE KEY",
)
"""One of these is in every match of `_KEY`; to look for them takes a fraction of its time."""
_ASSIGNED = re.compile(r"(?P<name>(?<![\w-])[\w-]++)[\"']?\s*[:=]\s*")
_VALUE = re.compile(r"[\"'][^\"']*[\"']|[^\s,}\]]+")
_CREDENTIALS = re.compile(
    r"\b(?P<scheme>(?i:Bearer|Basic))\s+(?=[\w.~+/-]*(?:[0-9=]|[a-z][A-Z]))[\w.~+/-]{8,}=*",
)
"""What a header `Authorization` holds; "basic authentication" is none."""
_LONGEST_READ = 10_000
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
        text = _USER_IN_URL.sub(f"://{HIDDEN}@", text)
    if "=" in text:
        text = _SECRET_IN_QUERY.sub(rf"\g<name>{HIDDEN}", text)
    return _KEY.sub(HIDDEN, text) if any(sign in text for sign in _KEY_SIGNS) else text


def redact_assignments(text: str) -> str:
    """Return the text as `redact` does, with the values of `name=value` and `name: value` hidden for secret names."""
    parts, end = [], 0
    for match in _ASSIGNED.finditer(text):
        if match.start() < end or not is_secret_name(match["name"]):
            continue
        if (value := _VALUE.match(text, match.end())) is not None:
            parts += [text[end : match.end()], HIDDEN]
            end = value.end()
    return redact("".join([*parts, text[end:]]))


def foreign_line(text: object, longest: int = 300) -> str:
    """Return what another program says of an error as one short line, without secrets, that any file or page can hold.

    Args:
        text: whatever was answered; half surrogate pairs and control characters stand for nothing that could be shown.
        longest: characters of the line; a longer one loses its middle, as the cause often stands at its end.
    """
    shown = str(text)[:_LONGEST_READ].encode("utf-8", "replace").decode()
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in shown).split())
    line = redact_assignments(_CREDENTIALS.sub(rf"\g<scheme> {HIDDEN}", line))
    if len(line) <= longest:
        return line
    end = longest // 3
    return f"{line[: longest - end - 1]}…{line[-end:]}"
