"""Images of responses: files named by their digest, in a folder beside the tables that name them.

    STAGE/rollouts/part-00000.parquet     response: the digest, response_type: image/png
    STAGE/images/3f/3f0a….png             its bytes, written before the row is committed

All tables of a stage share one folder, so an image that several of them name is stored once. A file is written
atomically and never again, and its digest is checked on every read.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from rubricworks.errors import UserError
from rubricworks.rubrics import Response
from rubricworks.storage import local_path, write_atomic

IMAGES = "images"
_SUFFIXES = {"image/png": ".png", "image/jpeg": ".jpg"}
_COLUMNS = ["response", "response_type"]
_BATCH = 1_024
_NAME = re.compile(r"[0-9a-f]{64}\.(?:png|jpg)")


def response_columns(response: str | Response) -> dict[str, str | None]:
    """Columns of a response in a table: `response`, its text or digest, and `response_type`, None for a text."""
    response = Response.of(response)
    return {"response": response.key, "response_type": response.media_type}


def response_of(row: Mapping[str, Any]) -> Response:
    """Response of a row's columns; of an image digest and type alone, see `ResponseImages.read`."""
    media_type = row.get("response_type")
    return Response(row["response"]) if media_type is None else Response(digest=row["response"], media_type=media_type)


class ResponseImages:
    """Images of one folder. It is created with its first image."""

    def __init__(self, folder: Path) -> None:
        """
        Args:
            folder: `images` in the folder of the tables.
        """
        self.folder = folder

    @classmethod
    def of_table(cls, uri: str | Path) -> Self:
        """Images that a table's rows name: in the table's own folder, or in the folder above it."""
        table = local_path(uri)
        own = table / IMAGES
        return cls(own if own.is_dir() else table.parent / IMAGES)

    def add(self, response: str | Response) -> None:
        """Store the image of a response, unless it is stored already; a text needs no storing.

        Raises:
            UserError: the disk is full, or the folder cannot be written.
            ValueError: only the digest of the image is known, and it is not stored.
        """
        response = Response.of(response)
        if response.text is not None or (path := self._path(response)).is_file():
            return
        if response.image is None:
            raise ValueError(f"{path}: only the digest of this image is known; add its bytes with Response.with_image")
        write_atomic(path, response.image)

    def read(self, response: Response) -> Response:
        """The response with its bytes; a text as it is.

        Raises:
            UserError: the image is missing or damaged.
        """
        if response.text is not None or response.image is not None:
            return response
        path = self._path(response)
        remedy = "run the stage that made it again"
        try:
            return response.with_image(path.read_bytes())
        except OSError as error:
            raise UserError(f"{path}: the image cannot be read ({error.strerror}); {remedy}") from None
        except ValueError:
            raise UserError(f"{path}: the image is damaged, its digest is another; delete it and {remedy}") from None

    def damaged(self) -> Path | None:
        """First file whose content is not that of its name, or None."""
        return next((path for path in sorted(self._files()) if not _is_sound(path)), None)

    def prune(self) -> int:
        """Delete the images that no table beside the folder names, and return their number.

        Call it only when nothing is writing those tables: the row of an image is committed after the image. If a table
        cannot be read, nothing is deleted.
        """
        import pyarrow as pa

        if not self.folder.is_dir():
            return 0
        try:
            named = set(self._named())
        except (pa.ArrowException, OSError):
            return 0
        strays = [path for path in self._files() if path.stem not in named]
        for path in strays:
            path.unlink(missing_ok=True)
        return len(strays)

    def _path(self, response: Response) -> Path:
        assert response.media_type is not None
        return self.folder / response.digest[:2] / f"{response.digest}{_SUFFIXES[response.media_type]}"

    def _files(self) -> Iterator[Path]:
        return (path for path in self.folder.glob("??/*") if _NAME.fullmatch(path.name))

    def _named(self) -> Iterator[str]:
        """Digests that the committed shards of all tables beside the folder name."""
        import pyarrow.parquet as pq

        place = self.folder.parent
        for shard in (*place.glob("part-*.parquet"), *place.glob("*/part-*.parquet")):
            with pq.ParquetFile(shard) as file:
                if set(_COLUMNS) <= set(file.schema_arrow.names):
                    for batch in file.iter_batches(_BATCH, columns=_COLUMNS):
                        yield from (row["response"] for row in batch.to_pylist() if row["response_type"] is not None)


def _is_sound(path: Path) -> bool:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == path.stem
