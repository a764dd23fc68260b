"""Tables (Parquet shards and a manifest), their schemas, and the sources of samples."""

from rubricworks.data.tables import Sample

__all__ = ["Sample"]
