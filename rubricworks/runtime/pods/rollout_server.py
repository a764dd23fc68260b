"""`python -m rubricworks.runtime.pods.rollout_server --model URI -- …`: serve a training's initial model with vLLM.

It runs in the vLLM image beside a training (`train_job.rollouts`), which sends the weights of later steps itself.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from rubricworks.errors import UserError
from rubricworks.listening import every_address
from rubricworks.runtime.job import model_dir
from rubricworks.runtime.store.downloads import fetch_input
from rubricworks.runtime.store.workspace import workspace_path
from rubricworks.storage import is_remote
from rubricworks.terminal import say


def main(arguments: Sequence[str] | None = None) -> int:
    """Fetch the model and replace this process with `vllm serve`."""
    own_arguments = list(sys.argv[1:] if arguments is None else arguments)
    vllm_arguments: list[str] = []
    if "--" in own_arguments:
        split = own_arguments.index("--")
        own_arguments, vllm_arguments = own_arguments[:split], own_arguments[split + 1 :]
    parser = argparse.ArgumentParser(prog="python -m rubricworks.runtime.pods.rollout_server")
    parser.add_argument("--model", required=True, help="URI of the stage whose model it is")
    uri = parser.parse_args(own_arguments).model
    try:
        folder = workspace_path(uri)
        if is_remote(uri):
            fetch_input(uri, folder)
        model = model_dir(folder)
    except UserError as error:
        say(f"error: {error}")
        return 2
    try:
        os.execvp("vllm", ["vllm", "serve", str(model), "--host", every_address(), *vllm_arguments])
    except FileNotFoundError:
        say("error: vllm is not installed here; take the vllm image (cluster.images.vllm)")
        return 2


if __name__ == "__main__":
    sys.exit(main())
