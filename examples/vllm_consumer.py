"""vLLM that serves the champion: each promotion loads its LoRA adapter, without a restart.

    VLLM_ALLOW_RUNTIME_LORA_UPDATING=True vllm serve BASE --enable-lora
    export RUBRICWORKS_API=https://… RUBRICWORKS_API_TOKEN=… RUBRICWORKS_WEBHOOK_SECRET=… MLFLOW_TRACKING_URI=https://…
    python examples/vllm_consumer.py http://127.0.0.1:8000 /models 8090

and on the API: RUBRICWORKS_WEBHOOK_URL=http://this-host:8090 with the same secret. vLLM must see the folder of models.
The new adapter is loaded under the model's name after the one before is unloaded, and the promotion is confirmed once
vLLM lists it. A policy that was trained whole needs a vLLM that is started anew: see examples/argocd_consumer.py.
"""

import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path

from rubricworks.errors import UserError
from rubricworks.tracking import TrackingConfig, connect, registry
from rubricworks.tracking.installation import named_api
from rubricworks.tracking.lineage import fetch_artifacts
from rubricworks.tracking.promotion_messages import Consumer, PromotionMessage, consumer_server


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
    if message.model in adapters(url):
        call(url, "unload_lora_adapter", {"lora_name": message.model})
    call(url, "load_lora_adapter", {"lora_name": message.model, "lora_path": str(folder)})
    if adapters(url).get(message.model) != str(folder):
        raise UserError(f"vLLM at {url} does not list {folder}")


def adapters(url: str) -> dict[str, str]:
    """Models that vLLM lists, with the folder of each."""
    with urllib.request.urlopen(f"{url}/v1/models", timeout=30) as answer:
        return {one["id"]: one.get("root") or "" for one in json.load(answer)["data"]}


def call(url: str, action: str, body: dict[str, str]) -> None:
    """POST to one of vLLM's endpoints of adapters."""
    head = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/v1/{action}", json.dumps(body).encode(), head, method="POST")
    try:
        urllib.request.urlopen(request, timeout=300).close()
    except urllib.error.HTTPError as error:
        raise UserError(f"vLLM at {url} refuses to {action}: {error.read(500).decode(errors='replace')}") from error


def main() -> None:
    url, models, port = sys.argv[1].rstrip("/"), Path(sys.argv[2]), int(sys.argv[3])
    api = named_api()
    if api is None:
        raise SystemExit("name the installation by RUBRICWORKS_API")

    def apply(message: PromotionMessage) -> None:
        load_adapter(url, message, download(message, models))

    consumer = Consumer(api, apply, models / "serving.json")
    server = consumer_server(port, os.environ["RUBRICWORKS_WEBHOOK_SECRET"], consumer)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
