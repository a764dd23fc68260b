"""Remote images: a text file with one URL per line, and captions after tabs."""

from rubricworks.data.hosts import FetchRefused, parse_url
from rubricworks.data.images import BadImage
from rubricworks.data.source_entries import Entries, ImageEntry, RejectedEntry, captions_of, source_files

LIST_SUFFIXES = (".txt", ".tsv", ".urls")


def url_list_entries(path: str) -> Entries:
    """Entries of a text file, or of a folder's text files in path order; blank lines and # comments are skipped."""
    for file in source_files(path, LIST_SUFFIXES):
        with file.open(encoding="utf-8-sig", errors="replace", newline="\n") as lines:
            for number, line in enumerate(lines, start=1):
                url, _, captions = line.partition("\t")
                if url.strip() and not url.startswith("#"):
                    yield url_entry(url, f"{file}:{number}", captions_of(captions.split("\t")))


def url_entry(url: str, location: str, references: tuple[str, ...]) -> ImageEntry | RejectedEntry:
    """Entry of the image at a URL, with the URL as its key.

    Args:
        location: place in the source, reported if the URL is invalid.
    """
    url = url.strip()
    try:
        parse_url(url)
    except FetchRefused as error:
        return RejectedEntry(source=location, reason=str(error))
    return ImageEntry(key=url, source=url, read=_read_remote, references=references, url=url)


def _read_remote() -> bytes:
    raise BadImage("lies elsewhere and has not been fetched")
