"""What the readers of a source hand on: an image found but not yet read, or a place where one should have been."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from rubricworks.errors import UserError


class Rejected(BaseModel):
    """An entry of a source that cannot be used, and why. The fields are the columns of the table `rejected`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    reason: str


@dataclass(frozen=True)
class FoundImage:
    """One image of a source. Reading its bytes is left to the one who needs them."""

    key: str
    """Names the image within its source, the same whenever the source is read."""
    source: str
    """Where it lies, for people."""
    read: Callable[[], bytes]
    """Its bytes; raises OSError, or BadImage for what is no image."""
    references: tuple[str, ...] = ()
    url: str | None = None
    """Where to fetch the bytes from, if they are not here; `read` does not fetch them."""


Found = Iterator[FoundImage | Rejected]


def files_of(path: str, suffixes: tuple[str, ...]) -> list[Path]:
    """The file itself, a folder's files with these suffixes, or what a pattern with `*` matches; sorted by path.

    Raises:
        UserError: there is nothing at the path.
    """
    place = Path(path)
    if place.is_file():
        return [place]
    if place.is_dir():
        files = [file for file in place.rglob("*") if file.suffix.lower() in suffixes]
    elif "*" in path:
        anchor = Path(place.anchor) if place.is_absolute() else Path()
        files = list(anchor.glob(str(place.relative_to(place.anchor))))
    else:
        raise UserError(f"{path}: no such file or folder; give the path of your images")
    return sorted(
        (file for file in files if file.is_file() and not _hidden(file, place)), key=lambda file: file.as_posix()
    )


def captions_of(value: object) -> tuple[str, ...]:
    """The captions in a field that holds one string or a list of them; blank ones are left out."""
    texts = [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else []
    return tuple(text.strip() for text in texts if isinstance(text, str) and text.strip())


def _hidden(file: Path, root: Path) -> bool:
    inside = file.relative_to(root) if root.is_dir() else Path(file.name)
    return any(part.startswith(".") for part in inside.parts)
