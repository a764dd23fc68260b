"""Folder of what `tests/cluster/install.sh` installs beside Debian's packages: outside the clone, for every clone."""

import os
from pathlib import Path

PEERS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rubricworks" / "peers"
