"""Tables (Parquet shards and a manifest), their schemas, and the sources that samples come from."""

from rubricworks.data.found import FoundImage, Rejected
from rubricworks.data.images import image_digest
from rubricworks.data.manifest import Manifest, Shard, read_manifest
from rubricworks.data.schemas import SCHEMA_VERSION, SCHEMAS
from rubricworks.data.sources import SourceItem, find_images, open_image, read_source
from rubricworks.data.tables import Sample, build_table, count_rows, read_rows, read_samples, shard_paths

__all__ = [
    "FoundImage",
    "Manifest",
    "Rejected",
    "SCHEMAS",
    "SCHEMA_VERSION",
    "Sample",
    "Shard",
    "SourceItem",
    "build_table",
    "count_rows",
    "find_images",
    "image_digest",
    "open_image",
    "read_manifest",
    "read_rows",
    "read_samples",
    "read_source",
    "shard_paths",
]
