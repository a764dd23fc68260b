"""Three captioners of a few scenes, the scene world's server, and all caption scorers that need no download."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from rubricworks.world.scene.captions import write_caption
from rubricworks.world.scene.export import export_scenes, noisy_caption
from rubricworks.world.scene.scene import generate_scenes

SEED = 17
PROGRAM = (
    "import sys; from rubricworks.world.server import serve\n"
    "serve(sys.argv[1], on_ready=lambda url: print(url, flush=True))"
)


@contextmanager
def world(folder: Path, count: int) -> Iterator[str]:
    """Scenes in `folder/images` with their server; yields its base URL."""
    export_scenes(folder, seed=SEED, count=count)
    server = subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder)], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    yield server.stdout.readline().strip()
    server.send_signal(signal.SIGTERM)
    assert server.wait(timeout=300) == 0
    server.stdout.close()


def captions(count: int) -> dict[str, list[str]]:
    """Captioner → captions in the order of the scenes: all that is there, a noisy form, and the first sentence."""
    scenes = list(generate_scenes(SEED, count))
    whole = [write_caption(scene) for scene in scenes]
    noisy = [noisy_caption(scene, SEED + 1, index) for index, scene in enumerate(scenes)]
    return {"whole": whole, "noisy": noisy, "short": [text.split(".")[0] + "." for text in whole]}


def write_responses(folder: Path, names: list[str], texts: dict[str, list[str]]) -> list[Path]:
    """A file of responses per captioner."""
    paths = []
    for model, rows in texts.items():
        path = folder / f"{model}.jsonl"
        lines = [json.dumps({"file_name": name, "caption": text}) for name, text in zip(names, rows, strict=True)]
        path.write_text("\n".join(lines), encoding="utf-8")
        paths.append(path)
    return paths


def write_scorers(path: Path, url: str, **scorers: Any) -> Path:
    """A YAML file of scorers; a text value is the name of a judge of the scene world."""
    filled = {
        name: {"judge": {"url": f"{url}/v1", "model": value}} if isinstance(value, str) else value
        for name, value in scorers.items()
    }
    path.write_text(yaml.safe_dump({"scorers": filled}))
    return path
