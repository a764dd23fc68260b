"""Stages on a cluster that call a served model: KServe's stand-in gives the address of a server here."""

import json
from io import BytesIO
from pathlib import Path

import pytest
from kubernetes_api import INFERENCE_SERVICES, KubernetesApi
from PIL import Image
from scripted_server import say
from vllm_stand_in import model_folder

from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.kubernetes import SERVE
from rubricworks.kubernetes.config import PodPlan, ServePlan
from rubricworks.llm.identity import IDENTITY_FILE, read_identities
from rubricworks.runtime.launch import launch
from rubricworks.runtime.serving.stage_models import stop_served_models


@pytest.fixture
def api(serve, tmp_path, monkeypatch):
    server = serve(lambda number, _: say("a red house"))
    with KubernetesApi() as api:
        monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))

        def become_ready(path: str, item: dict) -> None:
            api.status(path, address={"url": server.url})
            api.condition(path, "Ready")

        api.on_create = become_ready
        yield api


@pytest.fixture
def samples(tmp_path) -> str:
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(3):
        content = BytesIO()
        Image.new("RGB", (20, 20), (30 * number, 80, 120)).save(content, "PNG")
        (folder / f"{number}.png").write_bytes(content.getvalue())
    return launch("prepare", json.dumps({"source": str(folder), "held_out": 1}), str(tmp_path / "data"), {})


def placed(monkeypatch, *stages: str, image: str = "vllm@sha256:1") -> None:
    plan = ServePlan(kserve=True, pods={"captioner": PodPlan(image=image)}, callers={"captioner": stages})
    monkeypatch.setenv(SERVE, plan.model_dump_json())


def recap(tmp_path: Path, samples: str, **definition) -> Path:
    model = model_folder(tmp_path / "model", "weights")
    config = {"captioner": {"serve": {"name": "captioner", "model": str(model), **definition}}}
    return Path(launch("recap", json.dumps(config), str(tmp_path / "run"), {"samples": samples}))


def test_the_last_stage_that_calls_a_model_deletes_it(tmp_path, samples, api, monkeypatch):
    placed(monkeypatch, "recap")
    out = recap(tmp_path, samples)
    assert {row["caption"] for row in read_rows(out / "captions")} == {"a red house"}
    assert [method for method, path in api.asked if method == "POST" and "inferenceservices" in path] == ["POST"]
    assert api.of(INFERENCE_SERVICES) == []


def test_a_model_that_another_stage_calls_later_stays_until_the_exit_task(tmp_path, samples, api, monkeypatch):
    placed(monkeypatch, "recap", "write_exams")
    recap(tmp_path, samples)
    assert len(api.of(INFERENCE_SERVICES)) == 1
    stop_served_models(str(tmp_path / "run"))
    assert api.of(INFERENCE_SERVICES) == []


def test_the_servers_image_is_part_of_the_identity(tmp_path, samples, api, monkeypatch):
    placed(monkeypatch, "recap", image="registry/vllm@sha256:77")
    recap(tmp_path, samples)
    [entry] = read_identities(tmp_path / "run" / IDENTITY_FILE)["captioner"]
    assert " vllm-registry/vllm@sha256:77 " in entry.revision


def test_an_engine_that_no_cluster_has_is_refused_before_anything_starts(tmp_path, samples, api, monkeypatch):
    placed(monkeypatch, "recap")
    with pytest.raises(UserError, match=r"serve\.captioner\.engine: a cluster serves models by vLLM"):
        recap(tmp_path, samples, engine="generate")
    assert api.asked == []
