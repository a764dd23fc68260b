"""Every command of docs/operations.md: run by the program itself where there is one, else held to the chart.

`kubectl` makes its objects without a cluster, and they have what the chart's pods ask for. What `kubectl` and `helm` do
to a cluster is read from their words: names of Deployments, values and namespace are those that the chart renders.
"""

import json
import shlex
import shutil
import stat
from pathlib import Path

import psycopg
import pytest
import yaml
from operations_guide import GUIDE, blocks, carry_out
from pydantic import SecretStr
from rendered_chart import CHART, TEAM, containers, of_kind, pod_templates, rendered
from served_api import TOKEN, ask, bearer, served, wait_for
from test_api_postgres import Postgres
from test_api_postgres import postgres as postgres
from trained_run import write_run

from rubricworks.cli import cli
from rubricworks.platform_api.settings import ApiSettings

pytestmark = pytest.mark.cluster

BY_ITSELF = {
    "Back up": "test_backup_restore",
    "Restore": "test_backup_restore",
}
VARIABLES = {
    "DATABASE_URL": "postgresql://captions:s3cret@db/captions",
    "ACCESS": "access",
    "SECRET": "secret",
    "MLFLOW_TOKEN": "mlflow",
    "OIDC_SECRET": "oidc",
    "REGISTRY_USER": "puller",
    "REGISTRY_PASSWORD": "s3cret",
    "RUNS_TOKEN": "runs",
    "PROMETHEUS_TOKEN": "prometheus",
    "BREAK_GLASS": TOKEN,
    "TOKEN": TOKEN,
    "LAST": "0",
}
PLAYED = """#!/bin/sh
python3 -c 'import json, sys; print(json.dumps(sys.argv[1:]))' "${0##*/}" "$@" >> "$NOTES"
case "$*" in
  *" create "*) exec KUBECTL "$@" DRY-RUN ;;
  *" exec "*) while [ "$1" != -- ]; do shift; done; shift; exec "$@" ;;
esac
"""
"""kubectl and helm: note their words; kubectl makes objects without a cluster, and runs a pod's command here."""


@pytest.fixture
def programs(tmp_path) -> dict[str, str]:
    """Variables by which a block finds programs that note their words."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed; tests/cluster/install.sh does it")
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("kubectl", "helm"):
        text = PLAYED.replace("KUBECTL", kubectl).replace("DRY-RUN", "--dry-run=client -o yaml")
        (folder / name).write_text(text)
        (folder / name).chmod((folder / name).stat().st_mode | stat.S_IXUSR)
    return {**VARIABLES, "PATH": str(folder), "NOTES": str(tmp_path / "notes.jsonl"), "KUBECONFIG": "/dev/null"}


def words(programs: dict[str, str]) -> list[list[str]]:
    notes = Path(programs["NOTES"])
    return [json.loads(line) for line in notes.read_text().splitlines()] if notes.exists() else []


def team() -> list[dict]:
    return rendered(TEAM, release="captions")


def test_every_block_of_the_guide_is_run_by_a_test():
    here = Path(__file__).read_text()
    assert [heading for heading in blocks() if heading not in BY_ITSELF and f'blocks()["{heading}"]' not in here] == []


def test_install_makes_every_object_that_the_pods_of_team_yaml_ask_for(programs, tmp_path):
    shutil.copy(CHART / "team.yaml", tmp_path)
    (tmp_path / "submissions.yaml").write_text("places: []\n")
    make_certificate = (
        "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=captions.example.org -keyout tls.key -out tls.crt"
    )
    carry_out(make_certificate, {}, tmp_path)
    install, tokens = blocks()["Install"]
    (sign,) = [line for line in blocks()["Sign and verify"][0].splitlines() if line.startswith("kubectl")]
    (tmp_path / "signing.pem").write_text("-----BEGIN")
    secrets = "\n".join(line for line in tokens.splitlines() if line.startswith("kubectl"))
    output = carry_out("\n".join([install, secrets, sign]), programs, tmp_path)
    made = {
        (item["kind"], item["metadata"]["name"]): {*item.get("data", {})}
        for item in yaml.safe_load_all(output.replace("apiVersion: v1\n", "---\napiVersion: v1\n"))
        if item and item["kind"] != "Namespace"
    }
    asked: dict[tuple[str, str], set[str]] = {}
    for _, template in pod_templates(team()):
        for container in containers(template):
            for variable in container.get("env", []):
                source = variable.get("valueFrom", {})
                if reference := source.get("secretKeyRef"):
                    asked.setdefault(("Secret", reference["name"]), set()).add(reference["key"])
        spec = template["spec"]
        for volume in spec.get("volumes", []):
            asked.setdefault(("ConfigMap", volume.get("configMap", {}).get("name", "")), set())
            asked.setdefault(("Secret", volume.get("secret", {}).get("secretName", "")), set())
        for reference in spec.get("imagePullSecrets", []):
            asked.setdefault(("Secret", reference["name"]), set()).add(".dockerconfigjson")
    for item in of_kind(team(), "Ingress"):
        for entry in item["spec"]["tls"]:
            asked.setdefault(("Secret", entry["secretName"]), set()).update({"tls.crt", "tls.key"})
    for item in of_kind(team(), "ServiceMonitor"):
        for endpoint in item["spec"]["endpoints"]:
            if (reference := endpoint.get("authorization", {}).get("credentials")) is None:
                continue  # a model
            asked.setdefault(("Secret", reference["name"]), set()).add(reference["key"])
    of_chart = {(item["kind"], item["metadata"]["name"]) for item in team()} | {("ConfigMap", ""), ("Secret", "")}
    assert len(asked.keys() - of_chart) >= 8
    assert asked.keys() - of_chart - made.keys() == set()
    assert {place: keys - made[place] for place, keys in asked.items() if place in made and keys - made[place]} == {}
    assert made[("ConfigMap", TEAM["api"]["submissions"]["existingConfigMap"])] == {"submissions.yaml"}
    assert made[("Secret", TEAM["pipelines"]["apiToken"]["existingSecret"])] == {"token"}
    (helm,) = [call for call in words(programs) if call[0] == "helm"]
    assert helm == shlex.split("helm install captions charts/rubricworks -n captions -f team.yaml --wait")
    assert (GUIDE.parents[1] / helm[3]).resolve() == CHART
    assert {call[call.index("-n") + 1] for call in words(programs) if "-n" in call} == {"captions"}


@pytest.fixture
def service(postgres: Postgres, tmp_path, monkeypatch, request):
    """URL of a service over runs, its database, and a person's open session."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    runs = tmp_path / "runs"
    write_run(runs, sources={"a": "s3://datasets/customer-7/a.png"})
    database = postgres.new_database(request.node.name[:40])
    settings = ApiSettings(database=SecretStr(database), storage=str(runs), token=SecretStr(TOKEN), index_seconds=0.05)
    monkeypatch.setenv("RUBRICWORKS_DATABASE_URL", database)
    carry_out("rubricworks server migrate", {}, tmp_path)
    with psycopg.connect(database) as connection:
        connection.execute(
            "INSERT INTO sessions (digest, person, groups, opened_at, expires_at) VALUES "
            "(repeat('1', 64), 'ada@example.org', '[]', now(), now() + interval '1 hour')"
        )
    with served(settings) as url:
        wait_for(lambda: ask(f"{url}/api/v1/runs/today-1", **bearer())[0] == 200)
        yield url


def here(script: str, url: str, tmp_path: Path) -> str:
    """A block with this installation's address and runs in place of the guide's."""
    return script.replace("https://captions.example.org", url).replace(
        "s3://rubricworks/captions/runs", str(tmp_path / "runs")
    )


def test_tokens_logins_and_the_audit_log_are_what_the_guide_says(programs, service, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    tokens = here(blocks()["Install"][1], service, tmp_path)
    output = carry_out(tokens, programs, tmp_path)
    assert output.count("kind: Secret") == 2
    scopes = {token["name"]: token["scope"] for token in ask(f"{service}/api/v1/tokens", **bearer())[1]["items"]}
    assert scopes == {"runs": "runner", "prometheus": "viewer"}
    place = {**programs, "RUBRICWORKS_API": service, "RUBRICWORKS_API_TOKEN": TOKEN}
    assert len(ask(f"{service}/api/v1/sessions", **bearer())[1]["items"]) == 1
    end_session, break_glass = blocks()["Let people log in"]
    carry_out(end_session, place, tmp_path)
    assert ask(f"{service}/api/v1/sessions", **bearer())[1]["items"] == []
    carry_out(break_glass, place, tmp_path)
    (export,) = blocks()["Export the audit log"]
    carry_out(export, place, tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == sorted(line["id"] for line in lines)
    assert {"token.create"} <= {line["action"] for line in lines}
    carry_out(export, {**place, "LAST": str(lines[-1]["id"])}, tmp_path)
    assert len((tmp_path / "audit.jsonl").read_text().splitlines()) == len(lines), "nothing is exported twice"


def test_retention_and_removal_of_a_source_are_what_the_guide_says(programs, service, tmp_path, monkeypatch):
    (retention, tables) = blocks()["Retention"]
    (removal,) = blocks()["Delete one source's data"]
    carry_out(here(retention, service, tmp_path), programs, tmp_path)
    carry_out(here(tables, service, tmp_path), programs, tmp_path)
    assert (tmp_path / "runs" / "today-1").is_dir(), "it is younger"
    output = carry_out(here(removal, service, tmp_path), programs, tmp_path)
    assert "today-1" in output
    assert not (tmp_path / "runs" / "today-1").exists()


def test_changes_of_a_cluster_name_what_the_chart_renders(programs, service, tmp_path):
    place = {**programs, "RUBRICWORKS_API": service, "RUBRICWORKS_API_TOKEN": TOKEN}
    (upgrade,) = blocks()["Upgrade, and go back"]
    (remove,) = blocks()["Remove a project"]
    stop = "rubricworks runs stop RUN\n"
    assert stop in remove
    assert "today-1" in carry_out(upgrade + remove.replace(stop, ""), place, tmp_path)
    runs = cli.get_command(None, "runs")
    assert runs.get_command(None, "stop").make_context("stop", ["RUN"]).params["run"] == "RUN"
    assert [call[1] for call in words(programs)] == ["upgrade", "rollback", "uninstall"]
    assert {call[2] for call in words(programs)} == {"captions"}
    deployments = {item["metadata"]["name"] for item in of_kind(team(), "Deployment")}
    text = GUIDE.read_text()
    named = {word.removeprefix("deploy/") for word in text.split() if word.startswith("deploy/")}
    named |= {after.split()[0] for after in text.split("rollout restart deployment ")[1:]}
    assert named
    assert named <= deployments


def test_alert_rules_are_checked_by_the_guides_command(tmp_path):
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed; tests/cluster/install.sh does it")
    assert "SUCCESS" in carry_out(blocks()["Monitor it"][0], {}, GUIDE.parents[1])


def test_keys_sign_a_model_and_its_public_half_fetches_it(tmp_path, monkeypatch):
    pytest.importorskip("model_signing", reason="not installed: model-signing; install constraints.txt anew (make)")
    from rubricworks.tracking import registry, stage_connection

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    lines = [line for line in blocks()["Sign and verify"][0].splitlines() if not line.startswith("kubectl")]
    carry_out("\n".join(lines[:2]), {}, tmp_path)
    monkeypatch.setenv("RUBRICWORKS_SIGNING_KEY", str(tmp_path / "signing.pem"))
    (tmp_path / "trained").mkdir()
    (tmp_path / "trained" / "config.json").write_text("{}")
    connection, run = stage_connection(tmp_path / "runs" / "demo", "promote")
    version = registry.register(connection, tmp_path / "trained", "captioner", run=run, tags={})
    registry.promote(connection, "captioner", version.version, expected=None)
    carry_out("\n".join(lines[2:]), {}, tmp_path)
    assert (tmp_path / "models" / "captioner" / "config.json").read_text() == "{}"


def test_role_and_database_of_a_project_are_made_and_closed_to_others(postgres: Postgres, tmp_path):
    (_, roles) = blocks()["Give a project its own keys"]
    place = {"ADMIN_URL": postgres.url().get_secret_value(), "PASSWORD": "of-captions"}
    if shutil.which("psql") is None:
        pytest.skip("psql is not installed; tests/cluster/install.sh does it")
    carry_out(roles, place, tmp_path)
    own = f"postgresql://captions:of-captions@127.0.0.1:{postgres.port}"
    with psycopg.connect(f"{own}/captions") as connection:
        connection.execute("CREATE TABLE mine (x int)")
    with psycopg.connect(place["ADMIN_URL"], autocommit=True) as connection:
        connection.execute("CREATE ROLE images LOGIN PASSWORD 'of-images'")
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        psycopg.connect(f"postgresql://images:of-images@127.0.0.1:{postgres.port}/captions")
