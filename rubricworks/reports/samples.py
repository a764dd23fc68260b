"""Samples to show on a page, drawn by a hash of their names, with their pictures."""

import base64
import hashlib
import heapq
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rubricworks.data.manifest import MANIFEST
from rubricworks.data.tables import shard_paths

MAX_INLINE_BYTES = 150_000
"""Larger images are scaled down, because the page holds them all."""
_MAX_SIDE = 720
SIDE = 300
"""Longest side of a picture on a card, in pixels."""


def draw_samples(sample_ids: Iterable[str], count: int, seed: int) -> list[str]:
    """The samples with the smallest hashes; a sample's rows are adjacent, so repeats are skipped."""

    def distinct() -> Iterable[tuple[bytes, str]]:
        last = None
        for sample_id in sample_ids:
            if sample_id != last:
                yield hashlib.sha256(f"{seed}:{sample_id}".encode()).digest(), sample_id
            last = sample_id

    return [sample_id for _, sample_id in heapq.nsmallest(count, distinct())]


def sample_rows(table: Path, sample_ids: set[str], columns: list[str]) -> dict[str, dict[str, Any]]:
    """sample_id → its columns. Images are read only from shards that contain one of the samples."""
    import pyarrow.parquet as pq

    rows: dict[str, dict[str, Any]] = {}
    for path in shard_paths(table) if (table / MANIFEST).is_file() else ():
        with pq.ParquetFile(path) as shard:
            if sample_ids.isdisjoint(shard.read(columns=["sample_id"])["sample_id"].to_pylist()):
                continue
            for batch in shard.iter_batches(batch_size=16, columns=["sample_id", *columns]):
                rows.update({row["sample_id"]: row for row in batch.to_pylist() if row["sample_id"] in sample_ids})
    return rows


def data_uri(image: bytes) -> str:
    """The image as a data URI: unchanged if it is small, else scaled down to JPEG."""
    if len(image) > MAX_INLINE_BYTES:
        image = thumbnail(image, _MAX_SIDE, quality=85)
    kind = "png" if image.startswith(b"\x89PNG") else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(image).decode()}"


def small_image(image: bytes) -> str:
    """An image as a data URI, scaled down for a card."""
    return data_uri(thumbnail(image, SIDE, quality=80))


def thumbnail(image: bytes, side: int, quality: int) -> bytes:
    """The image as a JPEG of at most `side` pixels on each side."""
    from PIL import Image

    picture = Image.open(io.BytesIO(image)).convert("RGB")
    picture.thumbnail((side, side))
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()
