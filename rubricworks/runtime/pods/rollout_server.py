"""`python -m rubricworks.runtime.pods.rollout_server --model URI -- …`: vLLM on the model that a training starts from.

It runs in the vLLM image, beside a training (`train_job.rollouts`); the weights of later steps come from the training.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from rubricworks.errors import UserError
from rubricworks.runtime.job import model_dir
from rubricworks.runtime.store.downloads import fetch_input
from rubricworks.runtime.store.workspace import workspace_of
from rubricworks.storage import is_remote


def main(arguments: Sequence[str] | None = None) -> int:
    """Fetch the model and become `vllm serve`."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    ours, vllm = (given[: given.index("--")], given[given.index("--") + 1 :]) if "--" in given else (given, [])
    parser = argparse.ArgumentParser(prog="python -m rubricworks.runtime.pods.rollout_server")
    parser.add_argument("--model", required=True, help="URI of the stage whose model it is")
    uri = parser.parse_args(ours).model
    try:
        folder = workspace_of(uri)
        if is_remote(uri):
            fetch_input(uri, folder)
        model = model_dir(folder)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return 2
    try:
        os.execvp("vllm", ["vllm", "serve", str(model), *vllm])
    except FileNotFoundError:
        print("error: vllm is not installed here; take the vllm image (cluster.images.vllm)", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
