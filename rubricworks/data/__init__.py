"""Tables (Parquet shards and a manifest), their schemas, and the sources of samples."""
