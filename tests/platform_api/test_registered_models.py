"""Models of MLflow's own server by page: every one is listed, and a page costs one request for all its models."""

import asyncio
import re

import pytest
from mlflow_server import start_mlflow, stop_mlflow
from object_store import free_port
from served_api import Caller, ask, exchange, served
from urllib3.connectionpool import HTTPConnectionPool

from rubricworks.platform_api.db.engine import Database
from rubricworks.platform_api.db.migrate import migrate
from rubricworks.platform_api.db.tables import Promotion
from rubricworks.platform_api.pagination import encode_cursor
from rubricworks.platform_api.services.promotion.drift import Reconciler
from rubricworks.platform_api.services.promotion.mlflow_registry import MlflowRegistry
from rubricworks.platform_api.services.promotion.promotions import Promotions
from rubricworks.platform_api.settings import ApiSettings
from rubricworks.tracking import TrackingConfig, connect, registry

pytestmark = pytest.mark.slow
NAMES = [f"model-{number:04}" for number in range(1_050)]
"""More than MLflow gives in one answer: 100 by default, 1000 at most."""
CHAMPION, BEFORE, WAITING = NAMES[3], NAMES[4], NAMES[5]


def fill_registry(store, folder):
    """Register all names, some with versions and aliases."""
    connection = connect(TrackingConfig(uri=store), folder)
    from mlflow.store.model_registry.dbmodels.models import SqlRegisteredModel
    from mlflow.store.model_registry.sqlalchemy_store import SqlAlchemyStore

    with SqlAlchemyStore(store).ManagedSessionMaker(read_only=False) as session:
        session.add_all(SqlRegisteredModel(name=name, creation_time=1, last_updated_time=1) for name in NAMES)
    tags = {registry.APPROVAL_TAG: registry.WAITING, "gate": "better by 0.1", registry.DIGEST_TAG: "3f5a"}
    for name in (CHAMPION, BEFORE, WAITING):
        for _ in range(2):
            connection.client.create_model_version(name, source=str(folder), tags=tags)
    registry.promote(connection, CHAMPION, 2, expected=None)
    registry.nominate(connection, BEFORE, 1)
    registry.nominate(connection, WAITING, 2)


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory):
    """URL of the server."""
    folder, port = tmp_path_factory.mktemp("mlflow"), free_port()
    fill_registry(f"sqlite:///{folder}/server.db", folder)
    server = start_mlflow(folder, port)
    yield f"http://127.0.0.1:{port}"
    stop_mlflow(server)


@pytest.fixture(scope="module")
def service(mlflow, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", mlflow)
        with served(ApiSettings(storage=str(tmp_path_factory.mktemp("runs")), reconcile_seconds=3600)) as url:
            yield Caller(url)


@pytest.fixture
def asked(service, mlflow, monkeypatch):
    """Paths of the registry that are asked for, after the connection is made."""
    ask(f"{service.url}/models")
    paths, send = [], HTTPConnectionPool.urlopen

    def counted(pool, method, url, *arguments, **options):
        if mlflow.endswith(f":{pool.port}"):
            paths.append(url.partition("?")[0].rpartition("mlflow/")[2])
        return send(pool, method, url, *arguments, **options)

    monkeypatch.setattr(HTTPConnectionPool, "urlopen", counted)
    return paths


def test_names_are_those_of_all_pages(mlflow, tmp_path):
    assert registry.model_names(connect(TrackingConfig(uri=mlflow), tmp_path)) == NAMES


def test_every_model_is_listed_and_a_page_is_one_request(service, asked):
    result, cursor, pages = [], "", 0
    while cursor is not None:
        page = ask(f"{service.url}/models?limit=200{cursor and f'&cursor={cursor}'}")[1]
        result += page["items"]
        cursor, pages = page["next_cursor"], pages + 1
    assert ([item["model"] for item in result], pages) == (NAMES, 6)
    searches = ["registered-models/search"] * pages
    searches.insert(1, "model-versions/get")  # of the one challenger that is not its model's newest version
    assert asked == searches
    standings = {
        item["model"]: (item["champion"], item["challenger"] and item["challenger"]["version"]) for item in result
    }
    assert [standings[name] for name in (CHAMPION, BEFORE, WAITING, NAMES[6])] == [
        *((2, None), (None, 1), (None, 2), (None, None))
    ]
    assert [item["challenger"]["waits"] for item in result if item["challenger"]] == [True, True]


def test_page_of_promotions_leads_to_all_models_and_each_part_is_one_request(service, asked):
    seen, query = [], ""
    for _ in range(3):
        page = exchange(f"{service.pages}/promotions{query}")[2].decode()
        seen += re.findall(r">(model-\d+)</span></td>", page)
        query = re.search(r'href="(\?models=[^"]+)">more models', page)[1]
    assert seen == NAMES[:90]
    assert asked.count("registered-models/search") == len(asked) - 1 == 3


@pytest.mark.parametrize("other", ["WzFd", encode_cursor("' OR 1=1 --"), encode_cursor("WzFd"), encode_cursor("e30=")])
def test_cursor_of_another_list_is_refused(service, other):
    for path in (f"api/v1/models?cursor={other}", f"promotions?models={other}"):
        status, body = ask(f"{service.pages}/{path}")
        assert (status, body["detail"]) == (422, "cursor: not one that this list gave; leave it out to begin anew")


def test_drift_is_looked_for_among_promoted_models_alone(mlflow, service, asked, tmp_path):
    async def look():
        database = Database(f"sqlite:///{tmp_path}/platform.db")
        await migrate(database)
        async with database.session() as session:
            for version, champion in ((1, None), (2, 1)):
                item = {"model": CHAMPION, "version": version, "champion": champion, "digest": "3f5a", "reason": ""}
                session.add(Promotion(kind="promotion", gate="", requested_by="ada", state="applied", **item))
        promotions = Promotions(database, MlflowRegistry(mlflow, tmp_path), has_consumer=False)
        reconciler = Reconciler(database, promotions, None)
        await reconciler.look(None)
        asked.clear()
        result = await reconciler.look(None)
        await database.close()
        return result

    assert asyncio.run(look()) == ()
    assert asked == ["registered-models/get"]
