"""Where tables and models lie: URIs to paths, and writes that are there whole or not at all."""

from rubricworks.storage.files import files_digest, local_path, write_atomic

__all__ = ["files_digest", "local_path", "write_atomic"]
