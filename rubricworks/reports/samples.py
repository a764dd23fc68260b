"""Samples to show on a page: drawn by a hash of their names, with their pictures."""

import base64
import hashlib
import heapq
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rubricworks.data.manifest import MANIFEST
from rubricworks.data.tables import shard_paths


def drawn_samples(sample_ids: Iterable[str], count: int, seed: int) -> list[str]:
    """The samples whose hash comes first; a sample's rows stand together, so its repeats are passed over."""

    def distinct() -> Iterable[tuple[bytes, str]]:
        last = None
        for sample_id in sample_ids:
            if sample_id != last:
                yield hashlib.sha256(f"{seed}:{sample_id}".encode()).digest(), sample_id
            last = sample_id

    return [sample_id for _, sample_id in heapq.nsmallest(count, distinct())]


def sample_rows(table: Path, wanted: set[str], columns: list[str]) -> dict[str, dict[str, Any]]:
    """sample_id → its columns, images among them: these are read only from shards that hold a wanted sample."""
    import pyarrow.parquet as pq

    found: dict[str, dict[str, Any]] = {}
    for path in shard_paths(table) if (table / MANIFEST).is_file() else ():
        with pq.ParquetFile(path) as shard:
            if wanted.isdisjoint(shard.read(columns=["sample_id"])["sample_id"].to_pylist()):
                continue
            for batch in shard.iter_batches(batch_size=16, columns=["sample_id", *columns]):
                found.update({row["sample_id"]: row for row in batch.to_pylist() if row["sample_id"] in wanted})
    return found


def data_uri(image: bytes) -> str:
    """The image for an `src`: as it is if it is small, else scaled down to JPEG."""
    if len(image) > MAX_INLINE_BYTES:
        from PIL import Image

        opened = Image.open(io.BytesIO(image)).convert("RGB")
        opened.thumbnail((_SHOWN_SIDE, _SHOWN_SIDE))
        buffer = io.BytesIO()
        opened.save(buffer, "JPEG", quality=85)
        image = buffer.getvalue()
    kind = "png" if image.startswith(b"\x89PNG") else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(image).decode()}"


MAX_INLINE_BYTES = 150_000
"""Larger images are scaled down: the page holds them all."""


_SHOWN_SIDE = 720
