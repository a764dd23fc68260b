"""Images that lie elsewhere: a text file with one URL a line, after a tab its caption."""

from rubricworks.data.found import Found, FoundImage, Rejected, captions_of, files_of
from rubricworks.data.hosts import Refused, parse_url
from rubricworks.data.images import BadImage

LIST_SUFFIXES = (".txt", ".tsv", ".urls")


def find_in_lists(path: str) -> Found:
    """The URLs of a text file, or of a folder's in path order; blank lines and those that begin with # are left out."""
    for file in files_of(path, LIST_SUFFIXES):
        with file.open(encoding="utf-8-sig", errors="replace", newline="\n") as lines:
            for number, line in enumerate(lines, start=1):
                url, _, captions = line.partition("\t")
                if url.strip() and not url.startswith("#"):
                    yield found_at(url, f"{file}:{number}", captions_of(captions.split("\t")))


def found_at(url: str, where: str, references: tuple[str, ...]) -> FoundImage | Rejected:
    """The image at a URL, which is its key.

    Args:
        where: the place that names it, for a URL that is none.
    """
    url = url.strip()
    try:
        parse_url(url)
    except Refused as error:
        return Rejected(source=where, reason=str(error))
    return FoundImage(key=url, source=url, read=_not_here, references=references, url=url)


def _not_here() -> bytes:
    raise BadImage("lies elsewhere and has not been fetched")
