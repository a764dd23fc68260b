"""`python -m rubricworks.runtime.pods.rollout_server --model URI -- …`: fetch a model and serve it with vLLM.

It runs in the vLLM image: beside a training (`train_job.rollouts`), which sends the weights of later steps itself, and
for the models that a run serves (`serve`), whose weights may be a stage's or from elsewhere (`--weights`).
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rubricworks.data.hub import model_source
from rubricworks.errors import UserError
from rubricworks.listening import every_address
from rubricworks.runtime.job import model_dir
from rubricworks.runtime.store.downloads import fetch_input
from rubricworks.runtime.store.workspace import workspace_path
from rubricworks.storage import is_remote
from rubricworks.terminal import say


def _fetched(uri: str) -> Path:
    folder = workspace_path(uri)
    if is_remote(uri):
        fetch_input(uri, folder)
    return folder


def _weights(place: str) -> list[str]:
    """Return vLLM's arguments that name the weights."""
    if is_remote(place):
        return [str(_fetched(place))]
    source = model_source(place)
    return [place] if source is None else [source.name, "--revision", source.revision]


def main(arguments: Sequence[str] | None = None) -> int:
    """Fetch the model and replace this process with `vllm serve`."""
    own_arguments = list(sys.argv[1:] if arguments is None else arguments)
    vllm_arguments: list[str] = []
    if "--" in own_arguments:
        split = own_arguments.index("--")
        own_arguments, vllm_arguments = own_arguments[:split], own_arguments[split + 1 :]
    parser = argparse.ArgumentParser(prog="python -m rubricworks.runtime.pods.rollout_server")
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--model", help="URI of the stage whose model it is")
    place.add_argument("--weights", help="folder or URI of a model, or org/name@COMMIT of the Hub")
    parsed = parser.parse_args(own_arguments)
    try:
        model = [str(model_dir(_fetched(parsed.model)))] if parsed.model else _weights(parsed.weights)
    except UserError as error:
        say(f"error: {error}")
        return 2
    try:
        os.execvp("vllm", ["vllm", "serve", *model, "--host", every_address(), *vllm_arguments])
    except FileNotFoundError:
        say("error: vllm is not installed here; take the vllm image (cluster.images.vllm)")
        return 2


if __name__ == "__main__":
    sys.exit(main())
