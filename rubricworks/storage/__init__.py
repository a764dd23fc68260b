"""Storage of tables and models: file:// and s3:// URIs, and atomic writes."""

from rubricworks.storage.bucket import Bucket, StoredObject, open_bucket
from rubricworks.storage.check import check_storage
from rubricworks.storage.files import files_digest, link, local_path, write_atomic
from rubricworks.storage.uris import is_remote, join

__all__ = [
    "Bucket",
    "StoredObject",
    "check_storage",
    "files_digest",
    "is_remote",
    "join",
    "link",
    "local_path",
    "open_bucket",
    "write_atomic",
]
