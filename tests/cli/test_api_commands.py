"""`login` and `runs` against a real service: the token's file, what is printed, what an option keeps local."""

import json
import stat

import pytest
from click.testing import CliRunner
from pydantic import SecretStr
from served_api import TOKEN, ask, bearer, served
from trained_run import write_run

from rubricworks.cli import cli
from rubricworks.errors import TransientError, UserError
from rubricworks.platform_api.settings import ApiSettings
from rubricworks.tracking import installation
from rubricworks.tracking.installation import ApiClient, named_api


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder)
    with served(ApiSettings(storage=str(folder), token=SecretStr(TOKEN), index_seconds=0.02)) as url:
        while not ask(f"{url}/api/v1/runs", **bearer())[1]["items"]:
            pass
        yield url


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("RUBRICWORKS_API", "RUBRICWORKS_API_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def invoke(*arguments, given=""):
    result = CliRunner().invoke(cli, arguments, input=given, catch_exceptions=True)
    return result.exit_code, result.output, result.exception


def test_a_login_stores_the_token_for_its_user_alone_and_can_be_forgotten(url, home, monkeypatch):
    code, printed, _ = invoke("login", f"{url}/", given=f"{TOKEN}\n")
    path = home / "config" / "rubricworks" / "credentials.json"
    assert (code, f"export RUBRICWORKS_API={url}" in printed, TOKEN in printed) == (0, True, False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text()) == {url: TOKEN}
    monkeypatch.setenv("RUBRICWORKS_API", url)
    assert named_api().get("caller") == {"name": "environment", "scope": "admin"}
    assert invoke("login", url, "--forget")[0] == 0
    assert json.loads(path.read_text()) == {}


def test_a_wrong_token_is_not_stored(url, home):
    code, _, error = invoke("login", url, given="rw_of-nobody-0123456789\n")
    assert (code, "run: rubricworks login" in str(error), list(home.iterdir())) == (1, True, [])


def test_runs_are_those_of_the_installation_that_is_named(url, home, monkeypatch):
    monkeypatch.setenv("RUBRICWORKS_API", url)
    monkeypatch.setenv("RUBRICWORKS_API_TOKEN", TOKEN)
    assert "today-1" in invoke("runs", "list")[1]
    code, shown, _ = invoke("runs", "show", "today-1")
    assert (code, shown.splitlines()[0], f"{url}/runs/today-1" in shown) == (0, "today-1: done", True)
    assert "there is no run 'today-2'; did you mean today-1?" in str(invoke("runs", "show", "today-2")[2])
    (home / "runs").mkdir()
    assert "no runs" in invoke("runs", "list", "--runs", str(home / "runs"))[1]
    assert "stop it where it was started" in str(invoke("runs", "stop", "today-1")[2])
    refused = str(invoke("runs", "submit", "quickstart", "--set", "policy.group_size=1")[2])
    assert "policy.group_size" in refused
    assert "listens beyond loopback" in str(invoke("runs", "submit", "quickstart")[2])


def test_without_a_named_installation_submit_says_how_to_name_one():
    assert "name the installation by RUBRICWORKS_API" in str(invoke("runs", "submit", "quickstart")[2])


@pytest.mark.parametrize("url", ["ftp://host", "host:8080", "http://", "https://me:secret@host", "http://host/?a=b"])
def test_an_address_of_another_form_is_refused_without_its_password(url):
    with pytest.raises(UserError, match="write the API's address as https://host") as refused:
        ApiClient(url, None)
    assert "secret" not in str(refused.value)


def test_an_api_that_is_away_is_a_failure_that_may_pass(monkeypatch):
    monkeypatch.setattr(installation, "_PAUSE", 0)
    with pytest.raises(TransientError, match="does not answer"):
        ApiClient("http://127.0.0.1:9", "token").get("caller")
