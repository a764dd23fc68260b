"""Secrets in texts: names that hold one, texts that show one, and the same texts without it.

The texts are anybody's, such as the path of a request, so each pattern takes time in proportion to a text's
length: what may be long begins at one place of each run of its characters.
"""

import base64
import binascii
import re

HIDDEN = "***"
_SECRET_WORDS = {
    *("KEY", "APIKEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PWD", "PASS", "PASSPHRASE", "CREDENTIAL"),
    *("CREDENTIALS", "COOKIE"),
}
_REFERENCES = {"ENV", "FILE", "PATH", "DIR", "NAME", "URL", "URI"}
"""Last words of names that say where a secret is, such as `AWS_SHARED_CREDENTIALS_FILE`."""
_USER_IN_URL = re.compile(r"(?<=[a-z0-9+.-])://[^/?#\s\"']+@", re.IGNORECASE)
_SECRET_IN_QUERY = re.compile(
    r"(?P<name>[?&](?:[\w-]*(?:api[_-]?key|token|secret|password|signature|credential)|sig)=)[^&\s\"']+", re.IGNORECASE
)
_KEY = re.compile(
    r"\b(?:sk-|sk_live_|hf_|rw_|ghp_|gho_|github_pat_|glpat-|xox[abp]-|nvapi-|AIza|ya29\.|SG\.)"
    r"(?=[\w-]{0,60}(?:[0-9]|[a-z][A-Z]))[\w-]{12,}(?:\.[\w-]{8,})?"
    r"|\b(?:gsk_|xai-|r8_|pplx-|npm_)(?=[A-Za-z]{0,60}[0-9])[A-Za-z0-9]{12,}|\bdapi[0-9a-f]{16,}(?:-[0-9]+)?"
    r"|\bAKIA[0-9A-Z]{16}\b"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[\\A-Za-z0-9+/=\s]*+-----END [A-Z ]*PRIVATE KEY-----)?"
    r"|(?<![\w-])(?=[\w-]*?\beyJ[\w-]{8})[\w-]++\.eyJ[\w-]{8,}+\.[\w-]*"
)
"""Keys by their beginnings. A digit, or a capital after a small letter, tells them from words: `sk-learn-models`."""
_KEY_SIGNS = (
    *("sk-", "sk_live_", "hf_", "rw_", "ghp_", "gho_", "github_pat_", "glpat-", "xox", "nvapi-", "AIza", "AKIA", "eyJ"),
    *("ya29.", "SG.", "gsk_", "xai-", "r8_", "pplx-", "npm_", "dapi", "PRIVATE KEY"),
)
"""One of these is in every match of `_KEY`; to look for them takes a fraction of its time."""
_BASIC = re.compile(r"\b(?P<scheme>[Bb]asic\s+)(?P<value>[A-Za-z0-9+/]{4,}+={0,2})")
_BEARER = re.compile(r"\b(?P<scheme>[Bb]earer\s+)(?=[A-Za-z._~+/-]{0,60}[0-9])[\w.~+/-]{16,}=*")
_ASSIGNMENT = re.compile(
    r"(?P<name>(?<![\w-])[\w-]++)(?P<sign>(?:\\?[\"'])?\s*[:=]\s*)(?P<value>\\?\"[^\"\\]*\\?\"|'[^']*'|[^\s,;&\"'}\])]+)"
)
_ASSIGNMENT_SIGNS = re.compile(
    r"(?:key|secret|password|passwd|passphrase|token|sig|signature|credentials?)\\?[\"']?\s*[:=]", re.IGNORECASE
)
_WORD_ENDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_-]+")
_SECRETS_BY_NAME = {"PASSWORD", "PASSWD", "PASSPHRASE", "SECRET", "APIKEY"}
_KINDS_OF_KEY = {"API", "ACCESS", "SECRET", "ACCOUNT", "PRIVATE", "SHARED"}
_KINDS_OF_TOKEN = {"API", "ACCESS", "AUTH", "REFRESH", "SESSION", "BEARER", "HF"}
_SECRETS_BY_VALUE = {"KEY", "TOKEN", "SIG", "SIGNATURE", "CREDENTIAL", "CREDENTIALS"}
_NO_SECRETS = {"", "none", "null", "true", "false"}
_WITH_DIGITS = re.compile(r"(?=.*[0-9])\S{8,}")
_LIKE_A_KEY = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[\w.~+/%=-]{16,}")
_ASSIGNED = re.compile(r"(?P<name>(?<![\w-])[\w-]++)[\"']?\s*[:=]\s*")
_VALUE = re.compile(r"[\"'][^\"']*[\"']|[^\s,}\]]+")
_CREDENTIALS = re.compile(
    r"\b(?P<scheme>(?i:Bearer|Basic))\s+(?=[\w.~+/-]*(?:[0-9=]|[a-z][A-Z]))[\w.~+/-]{8,}=*",
)
"""Credential in a header `Authorization`; the words "basic authentication" are none."""
_LONGEST_READ = 10_000


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
    """Return the text with its users and passwords of URLs, its keys and credentials, and assigned secrets hidden.

    It is made for any text, such as a caption or a log: what only may be a secret, such as `token=12`, stays.
    """
    if "://" in text:
        text = _USER_IN_URL.sub(f"://{HIDDEN}@", text)
    if "=" in text:
        text = _SECRET_IN_QUERY.sub(rf"\g<name>{HIDDEN}", text)
    if any(sign in text for sign in _KEY_SIGNS):
        text = _KEY.sub(HIDDEN, text)
    if "asic" in text:
        text = _BASIC.sub(_without_credentials, text)
    if "earer" in text:
        text = _BEARER.sub(rf"\g<scheme>{HIDDEN}", text)
    return _ASSIGNMENT.sub(_without_value, text) if _ASSIGNMENT_SIGNS.search(text) else text


def _without_credentials(match: re.Match[str]) -> str:
    """The match without its value, if that is a user and a password in base64."""
    value = match["value"].rstrip("=")
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except binascii.Error:
        return match[0]
    user, colon, _ = decoded.partition(b":")
    return f"{match['scheme']}{HIDDEN}" if colon and user.isascii() else match[0]


def _without_value(match: re.Match[str]) -> str:
    """The match without its value, if its name or its value is a secret's."""
    *before, last = [word.upper() for word in _WORD_ENDS.split(match["name"]) if word] or [""]
    value, sign = match["value"].strip("\\\"'"), match["sign"]
    kind = before[-1] if before else ""
    is_name = (
        last in _SECRETS_BY_NAME
        or (last == "KEY" and kind in _KINDS_OF_KEY)
        or (last == "TOKEN" and kind in _KINDS_OF_TOKEN)
    )
    # What follows a colon may be prose, such as an error: "OPENAI_API_KEY: a secret stands here".
    is_quoted, is_equated = sign[:1] in ("\\", '"', "'"), sign == "=" or (bool(before) and "=" in sign)
    is_assigned = is_quoted or is_equated or (bool(before) and _WITH_DIGITS.fullmatch(value) is not None)
    is_secret = (is_name and is_assigned) or (last in _SECRETS_BY_VALUE and _LIKE_A_KEY.fullmatch(value))
    if not is_secret or value.lower() in _NO_SECRETS or value.startswith((HIDDEN, "$")):
        return match[0]
    return f"{match['name']}{sign}{match['value'].replace(value, HIDDEN)}"


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
