"""`rubricworks world`: the scene world's images and its OpenAI-compatible server."""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.decorators import FC

from rubricworks import __version__
from rubricworks.errors import UserError
from rubricworks.storage import write_atomic
from rubricworks.terminal import echo

if TYPE_CHECKING:
    from rubricworks.recipe import WorldConfig

URL, FOLDER = "RUBRICWORKS_WORLD_URL", "RUBRICWORKS_WORLD_DIR"
"""Variables that hold the world's endpoints and images, for a recipe with a `world:` section."""
DRAWN = "drawn.json"
"""File beside complete scenes: the settings that they were drawn by."""


def _share(name: str, meaning: str) -> Callable[[FC], FC]:
    return click.option(name, default=0.0, show_default=True, type=click.FloatRange(0, 1), help=meaning)


@click.group()
def world() -> None:
    """The embedded scene world: simulated images and scripted models (see docs/world.md)."""


@world.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--scenes", default=1280, show_default=True, help="Images to draw.")
@click.option("--questions", default=0, show_default=True, help="Questions about each image.")
@_share("--commentary", "Share of the captions that end with a sentence of commentary.")
@_share("--repetition", "Share of the captions that say one of their sentences twice.")
@_share("--brevity", "Share of the captions that stop after the first half of their sentences.")
@click.option("--pictures", default=0, show_default=True, help="Captioned pictures for text-to-image, with prompts.")
@click.option("--benchmarks", default=0, show_default=True, help="Questions in each of five small benchmarks.")
@click.option("--seed", default=1, show_default=True)
def export(
    folder: Path,
    scenes: int,
    questions: int,
    commentary: float,
    repetition: float,
    brevity: float,
    pictures: int,
    benchmarks: int,
    seed: int,
) -> None:
    """Draw scenes into FOLDER: images, noisy captions, questions if asked for, and the truth."""
    from rubricworks.recipe import WorldConfig

    shares = {"commentary": commentary, "repetition": repetition, "brevity": brevity}
    counts = {"questions": questions, "pictures": pictures, "benchmarks": benchmarks}
    _export(folder, WorldConfig(scenes=scenes, seed=seed, **counts, **shares))
    more = f", questions about them in {folder / 'questions'}" if questions else ""
    more += f", pictures and prompts in {folder / 'pictures'}" if pictures else ""
    more += f", benchmarks in {folder / 'benchmarks'}" if benchmarks else ""
    echo(f"{scenes} images in {folder / 'images'}{more}; serve their models with: rubricworks world serve {folder}")


@world.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65_535), help="0 takes a free one.")
def serve(folder: Path, host: str, port: int) -> None:
    """Serve teachers, rubric writer, judges and oracle for the scenes in FOLDER over HTTP.

    \b
    rubricworks world export scenes/
    rubricworks world serve scenes/ --port 8000
    curl http://127.0.0.1:8000/v1/models
    """
    from rubricworks.world.server import serve

    _end_with_parent()
    serve(folder, host=host, port=port, on_ready=lambda url: echo(url))


@contextmanager
def serve_world(config: "WorldConfig", folder: Path, others: Sequence[Path] = ()) -> Iterator[None]:
    """Draw the scenes if they are missing, serve them while the `with` block runs, and set RUBRICWORKS_WORLD_URL and
    RUBRICWORKS_WORLD_DIR.

    Args:
        others: folders of worlds to copy the scenes from, if one was drawn by the same settings.
    """
    _draw(config, folder, others)
    command = [sys.executable, "-m", "rubricworks.cli", "world", "serve", str(folder), "--port", "0"]
    with (folder / "server.log").open("ab") as log:
        environment = {**os.environ, "RUBRICWORKS_PARENT": str(os.getpid())}
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
    try:
        url = server.stdout.readline().strip() if server.stdout else ""
        if not url:
            raise UserError(f"the scene world's server did not start; see {folder / 'server.log'}")
        os.environ[URL], os.environ[FOLDER] = url, str(folder)
        yield
    finally:
        server.terminate()
        try:
            server.wait(timeout=5)
        except subprocess.TimeoutExpired:
            server.kill()


def _draw(config: "WorldConfig", folder: Path, others: Sequence[Path]) -> None:
    settings = json.dumps({"version": __version__, **config.model_dump()}, sort_keys=True).encode()
    if _is_drawn(folder, settings):
        return
    (folder / DRAWN).unlink(missing_ok=True)
    if same := next((other for other in others if _is_drawn(other, settings)), None):
        shutil.copytree(same, folder, ignore=shutil.ignore_patterns(DRAWN, "server.log"), dirs_exist_ok=True)
    else:
        _export(folder, config)
    write_atomic(folder / DRAWN, settings)


def _is_drawn(folder: Path, settings: bytes) -> bool:
    path = folder / DRAWN
    return path.is_file() and path.read_bytes() == settings


def _export(folder: Path, config: "WorldConfig") -> None:
    from rubricworks.world.scene.export import export_scenes

    seed, scenes = config.seed or 0, config.scenes
    if scenes:
        shares = {"commentary": config.commentary, "repetition": config.repetition, "brevity": config.brevity}
        export_scenes(folder, seed=seed, count=scenes, **shares)
    if config.questions:
        from rubricworks.world.scene.questions_export import export_questions

        export_questions(folder, seed=seed, count=scenes, per_scene=config.questions)
    if config.benchmarks:
        from rubricworks.world.scene.benchmarks_export import export_benchmarks

        export_benchmarks(folder, seed=seed, count=config.benchmarks)
    if config.pictures:
        from rubricworks.world.pictures.export import export_pictures

        export_pictures(
            folder, seed=seed, count=config.pictures, mismatched=config.mismatched, coloured=config.coloured
        )


def _end_with_parent() -> None:
    """End this server with the run that started it, however the run ends (Linux)."""
    parent = os.environ.get("RUBRICWORKS_PARENT")
    if parent and sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
        if os.getppid() != int(parent):  # it ended while this process was starting, so no signal will come
            sys.exit()
