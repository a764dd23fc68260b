"""Remote images: a text file with one URL per line, and captions after tabs."""

import re

from yarl import URL

from rubricworks.data.downloads.hosts import FetchRefused, parse_url
from rubricworks.data.images import BadImage
from rubricworks.data.source_entries import Entries, ImageEntry, RejectedEntry, captions_of, source_files

LIST_SUFFIXES = (".txt", ".tsv", ".urls")
_SECRET = re.compile(
    r"x(amz|cos|goog|ms|obs|oss|tos).*|.*(accessid|accesskey|apikey|credential|hmac|jwt|passw|secret|session|signature|"
    r"token).*|auth|authorization|hdne?a|hdnts|keypairid|policy|sig|sign"
)
"""Names of parameters that grant access, in lower case, without hyphens: of S3, Google, Azure, CloudFront, Akamai, …"""
_BESIDE_A_SECRET = re.compile(r"exp|expires?|hash|key|q.*|s[eprstv]|sip|sk(e|oid|s|t|tid|v)|spr|srt")
"""Names that belong to a signature where there is one, and may be anything where there is none."""
_LONGEST_PLAIN_VALUE = 40
"""A longer value of any parameter is taken for a signature or a token."""


def url_list_entries(path: str) -> Entries:
    """Entries of a text file, or of a folder's text files in path order; blank lines and # comments are skipped."""
    for file in source_files(path, LIST_SUFFIXES):
        with file.open(encoding="utf-8-sig", errors="replace", newline="\n") as lines:
            for number, line in enumerate(lines, start=1):
                url, _, captions = line.partition("\t")
                if url.strip() and not url.startswith("#"):
                    yield url_entry(url, f"{file}:{number}", captions_of(captions.split("\t")))


def url_entry(url: str, location: str, references: tuple[str, ...], prompt: str = "") -> ImageEntry | RejectedEntry:
    """Entry of the image at a URL, with the URL as its key.

    Args:
        location: place in the source, reported if the URL is invalid.
    """
    url = url.strip()
    try:
        parse_url(url)
    except FetchRefused as error:
        return RejectedEntry(source=location, reason=str(error))
    return ImageEntry(
        key=url, source=unsigned_url(url), read=_read_remote, references=references, prompt=prompt, url=url
    )


def unsigned_url(url: str) -> str:
    """URL for tables and messages: without the parameters that grant access, such as those of a pre-signed URL.

    The others tell images apart and stay; a URL without a secret is returned as it is.
    """
    parsed = URL(url)
    plain = {name: name.lower().replace("-", "").replace("_", "") for name in parsed.query}
    secret = {
        name
        for name, value in parsed.query.items()
        if _SECRET.fullmatch(plain[name]) or len(value) > _LONGEST_PLAIN_VALUE
    }
    if secret:
        secret |= {name for name in plain if _BESIDE_A_SECRET.fullmatch(plain[name])}
    elif not parsed.fragment:
        return url
    return str(parsed.without_query_params(*secret).with_fragment(None))


def _read_remote() -> bytes:
    raise BadImage("lies elsewhere and has not been fetched")
