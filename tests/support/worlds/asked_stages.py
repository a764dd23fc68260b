"""Samples and servers for stages that ask models, and what such a stage leaves behind."""

import hashlib
import json
from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from scripted_server import Said, ScriptedServer, say

from rubricworks.runtime.launch import launch


def prepare(folder: Path, count: int) -> str:
    """A finished table of so many samples to caption, no two pictures the same."""
    (folder / "images").mkdir(parents=True)
    for number in range(count):
        content = BytesIO()
        Image.new("RGB", (12, 12), (number % 250, number // 250, 90)).save(content, "PNG")
        (folder / "images" / f"{number:04}.png").write_bytes(content.getvalue())
    config = {"source": str(folder / "images"), "held_out": 2}
    return launch("prepare", json.dumps(config), str(folder / "prepared"), {})


def caption(run: Path, samples: str, **config: Any) -> Path:
    return Path(launch("caption_committee", json.dumps(config), str(run), {"samples": samples}))


def digest_of(body: dict[str, Any]) -> str:
    """The same for the same question."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:16]


def describe(_: int, body: dict[str, Any]) -> Said:
    """A caption of its own for every question, for a little less than what is reserved."""
    answer = say(f"caption {digest_of(body)}", tokens=(900, 10))
    answer.delay = 0.02
    return answer


def count_requests(server: ScriptedServer) -> Counter[str]:
    """Question → how often it was asked."""
    return Counter(digest_of(request.body) for request in server.chats)


def tables(folder: Path) -> dict[str, bytes]:
    """Files that must not depend on interruptions."""
    files = [path for name in ("part-*.parquet", ".manifest.json", "done.json") for path in folder.rglob(name)]
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(files)}
