"""vLLM that serves the champion: a LoRA adapter is loaded while it runs, a whole model by a restart.

    VLLM_ALLOW_RUNTIME_LORA_UPDATING=True vllm serve BASE --enable-lora
    export RUBRICWORKS_API=https://… RUBRICWORKS_API_TOKEN=… RUBRICWORKS_WEBHOOK_SECRET=… MLFLOW_TRACKING_URI=https://…
    python examples/vllm_consumer.py http://127.0.0.1:8000 /models 8090

and on the API: RUBRICWORKS_WEBHOOK_URL=http://this-host:8090 with the same secret, and RUBRICWORKS_WEBHOOK_NETWORKS if
this host's address is not public. vLLM must see the folder of models. The new adapter is loaded under the model's name
after the one before is unloaded, and the promotion is confirmed once vLLM lists it.

vLLM loads a whole model at its start alone. So it is started on a link, and the command that restarts it comes last:

    vllm serve /models/captioner/serving --served-model-name captioner        # the unit vllm.service
    python examples/vllm_consumer.py http://127.0.0.1:8000 /models 8090 systemctl restart vllm

The link leads to the new version, the command runs, and the promotion is confirmed once vLLM answers for the model. The
command has to return after the old process has ended, as systemctl does: nothing in vLLM's answers tells which files
it read. Nobody is served meanwhile; where that matters, examples/argocd_consumer.py rolls pods over. If the command
fails or vLLM stays silent, the link leads back and the command runs once more.
"""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from rubricworks.errors import UserError
from rubricworks.tracking import TrackingConfig, connect, registry
from rubricworks.tracking.installation import named_api
from rubricworks.tracking.lineage import fetch_artifacts
from rubricworks.tracking.promotion_messages import Consumer, PromotionMessage, consumer_server

START_SECONDS = 900
"""Longest time in which vLLM loads a model."""


def download(message: PromotionMessage, models: Path) -> Path:
    """Folder of a version's files, fetched from MLflow's registry."""
    connection = connect(TrackingConfig(), models)
    if connection is None:
        raise UserError("the registry needs MLflow: pip install 'rubricworks[tracking]'")
    version = registry.get_version(connection, message.model, message.version)
    if version.tags.get(registry.DIGEST_TAG, "") != message.digest:
        raise UserError(f"{message.model} version {message.version} is not the one that was approved")
    folder = models / message.model / str(message.version)
    return registry.model_files(fetch_artifacts(connection, version.source, folder, "the model"))


def load_adapter(url: str, message: PromotionMessage, folder: Path) -> None:
    """Make vLLM serve an adapter under the model's name, in place of the one before."""
    if message.model in served(url):
        call(url, "unload_lora_adapter", {"lora_name": message.model})
    call(url, "load_lora_adapter", {"lora_name": message.model, "lora_path": str(folder)})
    if served(url).get(message.model) != str(folder):
        raise UserError(f"vLLM at {url} does not list {folder}")


def serve_whole(url: str, message: PromotionMessage, folder: Path, link: Path, restart: list[str]) -> None:
    """Restart vLLM on a whole model; on the one before if that fails."""
    if not restart:
        raise UserError(
            f"{message.model} version {message.version} is a whole model, which vLLM loads at its start alone: give "
            "the command that restarts it after the port"
        )
    before = link.readlink() if link.is_symlink() else None
    try:
        point(link, folder)
        start_again(url, message.model, restart)
    except UserError:
        if before is not None:
            point(link, before)
            start_again(url, message.model, restart)
        raise


def point(link: Path, folder: Path) -> None:
    """Make a link lead to a folder; at no moment is there none."""
    aside = link.with_name(f".{link.name}")
    aside.unlink(missing_ok=True)
    aside.symlink_to(folder)
    aside.replace(link)


def start_again(url: str, model: str, restart: list[str]) -> None:
    """Restart vLLM and wait until it answers for a model."""
    ended = subprocess.run(restart, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise UserError(f"{restart[0]} ended with exit code {ended.returncode}: {ended.stderr.strip()[-500:]}")
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            if model in served(url):
                return
        except OSError:  # it is loading
            pass
        time.sleep(1)
    raise UserError(f"vLLM at {url} does not answer for {model} {START_SECONDS} s after its restart")


def served(url: str) -> dict[str, str]:
    """Models that vLLM lists, with the folder of each."""
    with urllib.request.urlopen(f"{url}/v1/models", timeout=30) as answer:
        return {model["id"]: model.get("root") or "" for model in json.load(answer)["data"]}


def call(url: str, action: str, body: dict[str, str]) -> None:
    """POST to one of vLLM's endpoints of adapters."""
    head = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/v1/{action}", json.dumps(body).encode(), head, method="POST")
    try:
        urllib.request.urlopen(request, timeout=300).close()
    except urllib.error.HTTPError as error:
        raise UserError(f"vLLM at {url} refuses to {action}: {error.read(500).decode(errors='replace')}") from error


def main() -> None:
    url, models, port, restart = sys.argv[1].rstrip("/"), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    api = named_api()
    if api is None:
        raise SystemExit("name the installation by RUBRICWORKS_API")

    def apply(message: PromotionMessage) -> None:
        folder = download(message, models)
        if (folder / "adapter_config.json").is_file():
            load_adapter(url, message, folder)
        else:
            serve_whole(url, message, folder, models / message.model / "serving", restart)

    consumer = Consumer(api, apply, models / "serving.json")
    server = consumer_server(port, os.environ["RUBRICWORKS_WEBHOOK_SECRET"], consumer)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
