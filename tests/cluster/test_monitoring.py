"""Alert rules, by promtool; a real Prometheus scrapes the API and a run, and answers the dashboard's queries."""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlencode

import pytest
import yaml
from object_store import free_port
from pydantic import SecretStr
from rendered_chart import CHART
from served_api import TOKEN, ask, bearer, exchange, served, wait_for
from trained_run import STAGE, write_run

from rubricworks.platform_api.project import Project, ProjectBudget
from rubricworks.platform_api.settings import ApiSettings
from rubricworks.runs.folder_lock import lock_folder
from rubricworks.runtime.progress import progress_path

pytestmark = pytest.mark.cluster

ALERTS, DASHBOARD = CHART / "files" / "alerts.yaml", CHART / "files" / "dashboard.json"
OF_OTHERS = {"vllm:num_requests_running", "vllm:num_requests_waiting"}
"""Figures of vLLM, which needs a model to serve."""


WITHOUT_ROWS = ("rubricworks_dead_letters", "rubricworks_promotions")
"""Figures that a run without dead letters and an installation without promotions have none of."""


def promtool(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed; tests/cluster/install.sh does it")
    return subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, cwd=cwd, timeout=300)


def test_promtool_takes_the_alert_rules() -> None:
    checked = promtool("check", "rules", ALERTS)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_each_alert_goes_off_where_it_should_and_not_where_all_is_well(tmp_path: Path) -> None:
    rules = yaml.safe_load(ALERTS.read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            del rule["annotations"]  # their texts are not what is tested
    (tmp_path / "alerts.yaml").write_text(yaml.safe_dump(rules))
    cases = Path(__file__).with_name("alerts_test.yaml")
    (tmp_path / cases.name).write_text(cases.read_text())
    tested = promtool("test", "rules", cases.name, cwd=tmp_path)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    names = {rule["alert"] for group in rules["groups"] for rule in group["rules"]}
    assert names == set(re.findall(r"alertname: (\w+)", cases.read_text()))


RUN = """
    import asyncio
    from rubricworks.llm import ChatClient, ChatError, Endpoint, telemetry

    async def main():
        telemetry.start_from_environment()
        judge = ChatClient(Endpoint(url="http://127.0.0.1:9/v1", model="qwen"), purpose="judge", attempts=1)
        print("ready", flush=True)
        while True:
            try:
                await judge.chat([{"role": "user", "content": "is it so?"}])
            except ChatError:
                await asyncio.sleep(0.2)

    asyncio.run(main())
"""
"""A run's process whose judge is away."""


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory) -> Iterator[str]:
    """Address of a Prometheus that scrapes the API, over a run that is going, and a run's own figures."""
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed; tests/cluster/install.sh does it")
    folder = tmp_path_factory.mktemp("monitored")
    run = write_run(folder / "runs")
    progress = {"done": 3, "total": 8, "unit": "steps", "rate": 0.5, "seconds_left": 10.0, "tokens": 1, "dollars": 0.5}
    (run / STAGE / "done.json").unlink(missing_ok=True)
    (run / progress_path(STAGE)).parent.mkdir(parents=True, exist_ok=True)
    (run / progress_path(STAGE)).write_text(json.dumps(progress))
    project = Project(name="captions", budget=ProjectBudget(dollars_a_month=5))
    settings = ApiSettings(storage=str(folder / "runs"), token=SecretStr(TOKEN), index_seconds=0.05, project=project)
    telemetry, own = free_port(), free_port()
    with ExitStack() as stack:
        stack.enter_context(lock_folder(run))
        url = stack.enter_context(served(settings))
        secret = ask(f"{url}/api/v1/tokens", method="POST", body={"name": "p", "scope": "viewer"}, **bearer())[1][
            "secret"
        ]

        def start(*command: str, **options) -> subprocess.Popen:
            process = subprocess.Popen(command, stderr=subprocess.DEVNULL, **options)
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        environment = {"RUBRICWORKS_METRICS_PORT": str(telemetry)}
        child = start(
            *(sys.executable, "-c", textwrap.dedent(RUN)),
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        assert child.stdout.readline() == "ready\n"
        labels = {"labels": {"namespace": "team"}}
        jobs = [
            {
                "job_name": "api",
                "scheme": "http",
                "authorization": {"credentials": secret},
                "static_configs": [{"targets": [url.removeprefix("http://")], **labels}],
            },
            {"job_name": "run", "static_configs": [{"targets": [f"127.0.0.1:{telemetry}"], **labels}]},
        ]
        rules = folder / "rules.yaml"
        rules.write_text(ALERTS.read_text().replace("NAMESPACE", "team"))
        configuration = {
            "global": {"scrape_interval": "200ms", "evaluation_interval": "1s"},
            "scrape_configs": jobs,
            "rule_files": [str(rules)],
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))
        start(
            *("prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb"),
            f"--web.listen-address=127.0.0.1:{own}",
            stdout=subprocess.DEVNULL,
        )
        address = f"http://127.0.0.1:{own}"
        wait_for(lambda: is_up(address))
        exchange(f"{url}/runs", **bearer(secret))
        yield address


def is_up(address: str) -> bool:
    """Return True once both targets were scraped several times."""
    figures = (
        "rate(rubricworks_http_request_seconds_count[1m])",
        "rubricworks_stage_done",
        "rate(rubricworks_chat_errors_total[1m])",
    )
    try:
        return all(query(address, figure) for figure in figures)
    except OSError:
        return False


def query(address: str, expression: str) -> list[dict]:
    with urllib.request.urlopen(f"{address}/api/v1/query?{urlencode({'query': expression})}", timeout=300) as answer:
        return json.load(answer)["data"]["result"]


def expressions() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


@pytest.mark.parametrize("expression", expressions())
def test_prometheus_answers_each_query_of_the_dashboard(prometheus: str, expression: str) -> None:
    asked = expression.replace("$namespace", "team").replace("$__rate_interval", "1m")
    if any(figure in expression for figure in OF_OTHERS):
        query(prometheus, asked)  # it is taken
        return
    if any(figure in expression for figure in WITHOUT_ROWS):
        asked = f"{asked} or vector(0)"
    wait_for(lambda: query(prometheus, asked))


def test_the_stage_at_work_and_the_projects_spending_are_those_of_the_run(prometheus: str) -> None:
    def value(expression: str) -> float:
        return float(query(prometheus, expression)[0]["value"][1])

    assert value(f'rubricworks_stage_done{{stage="{STAGE}"}} / rubricworks_stage_total') == 3 / 8
    assert value("rubricworks_project_dollars") == 0.5
    assert value("rubricworks_project_budget_dollars") == 5
    assert value('rubricworks_info{project="captions"}') == 1


def test_the_rules_are_evaluated_without_an_error(prometheus: str) -> None:
    with urllib.request.urlopen(f"{prometheus}/api/v1/rules", timeout=300) as answer:
        rules = json.load(answer)["data"]["groups"][0]["rules"]
    assert {rule["name"]: rule.get("lastError", "") for rule in rules if rule["health"] == "err"} == {}
