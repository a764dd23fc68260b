"""`rubricworks serve`: a model directory behind OpenAI's chat protocol."""

import signal
import threading
from pathlib import Path

import click

from rubricworks.terminal import echo


@click.command()
@click.argument("model", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--served-model-name", "name", metavar="NAME", help="Name in requests; by default the folder's name.")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65_535), help="0 takes a free one.")
@click.option("--batch-size", default=16, show_default=True, type=click.IntRange(min=1))
def serve(model: Path, name: str | None, host: str, port: int, batch_size: int) -> None:
    """Serve a MODEL directory, for tools that measure a model through OpenAI's protocol.

    \b
    rubricworks serve runs/ID/train_policy/model --port 8000
    curl http://127.0.0.1:8000/v1/models

    It answers with the model's own engine, in batches; for many users `vllm serve MODEL` is faster.
    """
    from rubricworks.training.model_server import served_model

    ended = threading.Event()
    for stop in (signal.SIGTERM, signal.SIGINT):
        signal.signal(stop, lambda *_: ended.set())
    with served_model(model, name=name, batch_size=batch_size, host=host, port=port) as served:
        echo(f"{served.url}: {name or model.name}")
        ended.wait()
