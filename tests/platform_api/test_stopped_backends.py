"""Pages while the bucket, MLflow and Kubeflow are away: each says so, in a banner, within seconds."""

import re
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import AsyncMock

import pytest
from mlflow_server import mlflow_stand_in
from pydantic import SecretStr
from served_api import TOKEN, Caller, ask, bearer, exchange, served, wait_for, wait_for_rollouts
from test_pages_in_browser import ADDRESSES, EXCHANGE, RUN, written_runs

from rubricworks.platform_api.services import run_storage
from rubricworks.platform_api.settings import ApiSettings
from rubricworks.runs.store import open_run_store
from rubricworks.storage import open_bucket

pytestmark = pytest.mark.slow
NOWHERE = "http://127.0.0.1:9"
BANNER = re.compile(r'<(?:aside|div) class="banner alarm[^"]*" role="\w+">(.*?)</(?:aside|div)>')
NEED_NOTHING = {"/", "/login", "/login/start", "/login/callback", "/runs/{run}/label/{stage}"}
"""Pages that lead elsewhere, or are shown to nobody in particular."""
UNKNOWN = {"/submissions/{run}"}


@pytest.fixture
def away(bucket, line, tmp_path: Path, monkeypatch) -> Iterator[Caller]:
    """A service all of whose backends go away once it has indexed its runs."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    folder = tmp_path / "runs"
    folder.mkdir()
    written_runs(folder)
    count = len(list(folder.glob("*/recipe.yaml")))
    stored = open_bucket(f"{bucket}/runs")
    for path in folder.rglob("*"):
        if path.is_file() and "mlruns" not in path.parts:
            stored.upload(path, str(path.relative_to(folder)))
    for name in ("MLFLOW_TRACKING_URI", "RUBRICWORKS_KUBEFLOW"):
        monkeypatch.setenv(name, NOWHERE)
    settings = ApiSettings(
        storage=f"{bucket}/runs",
        database=SecretStr(f"sqlite:///{tmp_path}/platform.db"),
        token=SecretStr(TOKEN),
        kubeflow=NOWHERE,
        index_seconds=0.05,
    )
    with served(settings) as url:
        wait_for_rollouts(url, **bearer())
        wait_for(lambda: len(ask(f"{url}/api/v1/runs", **bearer())[1]["items"]) == count)
        line.fault = lambda request: "drop"
        wait_for(lambda: banners(f"{url}/runs"))
        yield Caller(url)


def banners(page: str) -> list[str]:
    """What the banners of a page say."""
    return read_banners(exchange(page, Accept="text/html", **bearer())[2])


def read_banners(content: bytes) -> list[str]:
    return BANNER.findall(content.decode())


def test_every_page_says_that_a_backend_is_away(away, bucket):
    silent = []
    for path in ADDRESSES.keys() - NEED_NOTHING - UNKNOWN:
        for address in ADDRESSES[path]:
            status, _, content = exchange(away.pages + address, Accept="text/html", **bearer())
            allowed = (200, 404, 503) if "bogus" not in address else (422, 503)
            if status not in allowed or not read_banners(content) or bucket.encode() in content:
                silent.append((address, status))
    assert silent == []


@pytest.mark.parametrize("was_ever_open", [True, False])
def test_page_of_a_run_has_what_the_database_knows_of_it(away, was_ever_open, monkeypatch):
    if not was_ever_open:
        monkeypatch.setattr(run_storage.RunStorage, "get", AsyncMock(return_value=None))
    status, _, content = exchange(f"{away.pages}{RUN}", Accept="text/html", **bearer())
    page = content.decode()
    assert (status, [banner for banner in read_banners(content) if "storage of runs" in banner] != []) == (200, True)
    assert re.findall(r'<span class="stage-name">(.*?)</span>', page.replace("<wbr>", "")) == [
        "train_policy",
        "prepare",
    ]
    for place in ("rollouts/train_policy", "criteria/train_policy", "dead-letters", "compare", "rubrics/"):
        assert f'href="{RUN}/{place}' in page, place
    assert "Curves, costs, times of the stages, recipe, artifacts and the report are in the storage" in page
    assert "<h2>Budget</h2>" not in page


def test_registry_and_kubeflow_are_named_where_they_are_away(away):
    assert any(
        "The registry does not answer: no MLflow server" in banner for banner in banners(f"{away.pages}/promotions")
    )
    assert any("Kubeflow" in banner for banner in banners(f"{away.pages}/kubeflow-runs"))


def test_a_request_for_what_is_in_the_bucket_is_told_to_come_again(away):
    status, headers, _ = exchange(f"{away.url}{RUN}/stages/train_policy/steps", **bearer())
    assert (status, headers["retry-after"], headers["content-type"]) == (503, "5", "application/problem+json")


@pytest.mark.parametrize(
    "path", [f"{RUN}/budget", EXCHANGE.replace("rollouts/train_policy", "stages/train_policy/groups")]
)
def test_figures_that_need_the_recipe_are_refused_rather_than_guessed_without_it(away, line, path):
    line.fault = lambda request: "drop" if request.path.partition("?")[0].endswith("/recipe.yaml") else None
    status, headers, body = exchange(f"{away.url}{path}", **bearer())
    assert (status, headers.get("retry-after")) == (503, "5"), body


def test_a_page_waits_for_a_bucket_for_seconds_whatever_a_run_waits(bucket, monkeypatch):
    monkeypatch.setenv("RUBRICWORKS_S3_PATIENCE", "180")
    store = open_run_store(bucket, patience_s=run_storage._PATIENCE_S)
    assert store._bucket.settings.patience_s == 5.0
    assert open_run_store(bucket)._bucket.settings.patience_s == 180.0


def test_a_registry_that_refuses_the_service_is_the_services_fault(tmp_path, monkeypatch):
    denied = b'{"error_code": "PERMISSION_DENIED", "message": "Permission denied"}'
    with mlflow_stand_in(answer=(403, denied)) as port:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{port}")
        with served(ApiSettings(storage=str(tmp_path), token=SecretStr(TOKEN))) as url:
            status, body = ask(f"{url}/api/v1/models", **bearer())
            page = exchange(f"{url}/promotions", Accept="text/html", **bearer())
    assert (status, body["title"]) == (502, "Registry refused")
    assert "access is refused; grant it" in body["detail"]
    assert (page[0], b"access is refused" in page[2]) == (200, True), page[2].decode()
