"""The version before beside this one on one Postgres: an upgrade while a run goes, and the way back."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from earlier_version import Earlier, missing_history
from object_store import free_port
from promotion_storm import MODEL, Installation
from pydantic import SecretStr
from rendered_chart import CHART, PRODUCTION, containers, of_kind, rendered, the
from served_api import TOKEN, Caller, ask, bearer, served, wait_for, wait_for_rollouts
from test_api_postgres import Postgres
from test_api_postgres import postgres as postgres
from test_backup_restore import migrate
from trained_run import STAGE, write_run

from rubricworks.platform_api.db.migrate import REVISIONS
from rubricworks.platform_api.db.tables import INDEX_VERSION
from rubricworks.platform_api.settings import ApiSettings
from rubricworks.tracking.installation import ApiClient, request_promotion

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(missing_history() is not None, reason=str(missing_history())),
]
_FIRST_WITH_INDEX_VERSIONS = "0019"
REQUEST = """
from rubricworks.tracking.installation import ApiClient, request_promotion
url, token, model, version = sys.argv[1:]
print(request_promotion(ApiClient(url, token), model, int(version), "run today-1"))
"""
"""The call of a run's stage `promote`."""


@pytest.fixture(scope="module")
def earlier(tmp_path_factory) -> Earlier:
    return Earlier(tmp_path_factory.mktemp("earlier") / "code", _FIRST_WITH_INDEX_VERSIONS)


class Upgrade:
    """One installation: its database and runs, which both versions serve."""

    def __init__(self, earlier: Earlier, database: str, folder: Path) -> None:
        self.earlier, self.database, self.runs = earlier, database, folder / "runs"
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("RUBRICWORKS", "MLFLOW"))},
            "RUBRICWORKS_DATABASE_URL": database,
            "RUBRICWORKS_STORAGE": str(self.runs),
            "RUBRICWORKS_API_TOKEN": TOKEN,
        }
        self.settings = ApiSettings(
            database=SecretStr(database), storage=str(self.runs), token=SecretStr(TOKEN), index_seconds=0.1
        )
        self.log = folder / "earlier.log"

    def run_before(self, command: list[str]) -> str:
        """Output of a command of the version before."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, cwd="/", check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextmanager
    def before(self) -> Iterator[str]:
        """URL of a service of the version before, a process of its own."""
        port = free_port()
        command = self.earlier.command("server", "--host", "127.0.0.1", "--port", str(port))
        with self.log.open("ab") as log:
            process = subprocess.Popen(command, env=self.environment, cwd="/", stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{port}"

            def is_up() -> bool:
                assert process.poll() is None, self.log.read_text()[-3000:]
                try:
                    return ask(f"{url}/readyz", **bearer())[0] == 200
                except OSError:
                    return False

            wait_for(is_up)
            yield url
        finally:
            process.terminate()
            process.wait()

    def index_versions(self, run: str) -> set[int]:
        """Versions of the service that indexed a run's shards; 0 is the one before."""
        with psycopg.connect(self.database) as connection:
            rows = connection.execute("SELECT index_version FROM shards WHERE run = %s", (run,)).fetchall()
        return {version for (version,) in rows}

    def errors(self) -> list[str]:
        return [
            line for line in self.log.read_text().splitlines() if line.startswith(("ERROR", "WARNING", "Traceback"))
        ]


@pytest.fixture
def upgrade(earlier, postgres: Postgres, tmp_path, monkeypatch, request) -> Upgrade:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    state = Upgrade(earlier, postgres.new_database(f"{request.node.name[:30]}-{earlier.commit[:6]}"), tmp_path)
    state.runs.mkdir()
    assert "revision" in state.run_before(earlier.command("server", "migrate"))
    return state


def test_both_versions_serve_one_database_and_a_run_of_the_one_goes_on_at_the_other(upgrade: Upgrade) -> None:
    write_run(upgrade.runs)
    with upgrade.before() as old:
        wait_for_rollouts(old, **bearer())
        models = Installation(old, upgrade.runs)
        run_token = Caller(old).secret("runner-of-a-run")
        migrate(upgrade.database)
        # The version before serves on over the new tables, and writes.
        write_run(upgrade.runs, "during-1")
        wait_for_rollouts(old, "during-1", **bearer())
        assert upgrade.index_versions("during-1") == {0}
        assert Caller(old).secret("viewer-after") != ""
        with served(upgrade.settings) as new:
            for url in (old, new):
                wait_for_rollouts(url, "during-1", **bearer())
                names = {run["name"] for run in ask(f"{url}/api/v1/runs", **bearer())[1]["items"]}
                assert names == {"today-1", "during-1"}
            # The run that the version before started calls with its token and its code; both understand both.
            for number, (url, is_old) in enumerate([(new, True), (old, False), (new, False), (old, True)]):
                version = models.add_version()
                if is_old:
                    arguments = (url, run_token, MODEL, str(version))
                    said = upgrade.run_before(upgrade.earlier.python(REQUEST, *arguments)).strip()
                else:
                    said = request_promotion(ApiClient(url, run_token), MODEL, version, "run today-1")
                assert f"{MODEL} version {version}" in said
                # Approved at the other one.
                models.url = f"{old if url == new else new}/api/v1"
                (request,) = [entry for entry in models.pages("promotions") if entry["version"] == version]
                assert models.post("approver-a", f"promotions/{request['id']}/approve")[0] == 200
                assert models.champion() == version, number
            for written, read in ((old, new), (new, old)):
                secret = Caller(written).secret(f"runner-{'old' if written == old else 'new'}")
                assert ask(f"{read}/api/v1/caller", **bearer(secret))[1]["scope"] == "runner"
            # What the version before indexed is indexed anew.
            for run in ("today-1", "during-1"):
                wait_for(lambda run=run: upgrade.index_versions(run) == {INDEX_VERSION})
        assert ask(f"{old}/readyz", **bearer())[0] == 200
    assert upgrade.errors() == []


def test_chart_rolls_back_to_a_working_service_over_the_newer_database(upgrade: Upgrade) -> None:
    write_run(upgrade.runs)
    migrate(upgrade.database)
    with served(upgrade.settings) as new:
        wait_for_rollouts(new, **bearer())
        models = Installation(new, upgrade.runs)
        number = models.request()
        secret = Caller(new).secret("runner-new")
    before, after = (rendered(PRODUCTION, revision=3, chart=chart) for chart in (upgrade.earlier.chart, CHART))
    # Helm, and the API, refuse a change of these.
    for kind in ("Deployment", "StatefulSet", "Service", "PersistentVolumeClaim"):
        fixed = [
            {
                item["metadata"]["name"]: [item["spec"].get(name) for name in ("selector", "clusterIP", "accessModes")]
                for item in of_kind(objects, kind)
            }
            for objects in (before, after)
        ]
        shared = fixed[0].keys() & fixed[1].keys()
        assert {name: fixed[0][name] for name in shared} == {name: fixed[1][name] for name in shared}
    # Pods of a run that goes on name these.
    for kind in ("Service", "ServiceAccount", "Role", "ConfigMap"):
        names = [{item["metadata"]["name"] for item in of_kind(objects, kind)} for objects in (before, after)]
        assert names[0] <= names[1], kind
    # The migration Job of the chart before, then its Deployment, each by its own command.
    (job,) = containers(the(before, "Job", "-migration-3")["spec"]["template"])
    (api,) = containers(the(before, "Deployment", "-api")["spec"]["template"])
    for container, rest in ((job, ("server", "migrate")), (api, ("server",))):
        words = [*container.get("command", []), *container.get("args", [])]
        assert words[words.index("server") :][: len(rest)] == list(rest)
    said = upgrade.run_before(upgrade.earlier.command("server", "migrate"))
    assert said == f"the database is at revision {REVISIONS[-1]} of a newer version; this version works on it\n"
    with upgrade.before() as old:
        wait_for_rollouts(old, **bearer())
        assert ask(f"{old}/api/v1/runs/today-1/stages/{STAGE}/steps", **bearer())[0] == 200
        assert ask(f"{old}/api/v1/caller", **bearer(secret))[1]["scope"] == "runner"
        models.url = f"{old}/api/v1"
        assert models.post("approver-a", f"promotions/{number}/approve")[0] == 200
        assert models.champion() == models.get(f"promotions/{number}")["version"]
        write_run(upgrade.runs, "later-1")
        wait_for_rollouts(old, "later-1", **bearer())
    assert upgrade.errors() == []
    # And forward again.
    assert migrate(upgrade.database) == REVISIONS[-1]
    with served(upgrade.settings) as new:
        wait_for_rollouts(new, "later-1", **bearer())
        wait_for(lambda: upgrade.index_versions("later-1") == {INDEX_VERSION})
