"""Where tables and models lie: URIs to paths, and writes that are there whole or not at all."""

from rubricworks.storage.files import local_path, write_atomic

__all__ = ["local_path", "write_atomic"]
