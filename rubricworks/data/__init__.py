"""Tables (Parquet shards and a manifest), their schemas, and the sources that samples come from."""
