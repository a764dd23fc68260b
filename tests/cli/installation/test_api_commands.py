"""Commands against a real service: the token's file, each action of the pages, what an option keeps local."""

import csv
import json
import re
import stat
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from click.testing import CliRunner
from pydantic import SecretStr
from served_api import TOKEN, ask, bearer, served, wait_for, wait_for_rollouts
from trained_run import NAMES, STAGE, finish_tables, rubric, write_letters, write_rubrics, write_run, write_table

from rubricworks.cli import cli
from rubricworks.cli.installation import api_runs
from rubricworks.errors import TransientError, UserError
from rubricworks.platform_api.routers import runs as runs_router
from rubricworks.platform_api.settings import ApiSettings
from rubricworks.runs.folder_lock import lock_folder
from rubricworks.tracking import installation
from rubricworks.tracking.installation import ApiClient, named_api, open_api


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    run = write_run(folder)
    finish_tables(run)
    finish_tables(write_run(folder, "other-2"))
    write_rubrics(run)
    answers = [{"sample_id": "a", "model": model, "response": model} for model in ("base", "policy")]
    write_table(run / "score", "scores", [])
    write_table(run / "score" / "responses", "responses", [answer | {"decoding": "greedy"} for answer in answers])
    write_letters(write_run(folder, "letters-1"))
    return folder


@pytest.fixture(scope="module")
def url(folder):
    with served(ApiSettings(storage=str(folder), token=SecretStr(TOKEN), index_seconds=0.02)) as url:
        wait_for_rollouts(url, **bearer())
        wait_for(lambda: ask(f"{url}/api/v1/runs/letters-1", **bearer())[0] == 200)
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
    assert named_api().get("caller") == {"name": "environment", "scope": "admin", "project": None}
    assert invoke("login", url, "--forget")[0] == 0
    assert json.loads(path.read_text()) == {}


def test_a_wrong_token_is_not_stored(url, home):
    code, _, error = invoke("login", url, given="rw_of-nobody-0123456789\n")
    assert (code, "rubricworks tokens create" in str(error), list(home.iterdir())) == (1, True, [])


def test_a_login_at_an_installation_that_asks_for_no_token_says_so(tmp_path, home):
    with served(ApiSettings(storage=str(tmp_path / "runs"))) as url:
        code, _, error = invoke("login", url, given="rw_of-nobody-0123456789\n")
    assert (code, f"asks programs of this machine for none: export RUBRICWORKS_API={url}" in str(error)) == (1, True)
    assert not (home / "config").exists()


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
    (home / "latin.yaml").write_bytes("name: caf\xe9".encode("latin-1"))
    (home / "empty.yaml").write_text("\n")
    for name, words in (("latin", "cannot be read ('utf-8' codec"), ("empty", "empty.yaml is empty")):
        error = invoke("runs", "submit", str(home / f"{name}.yaml"))[2]
        assert (type(error), words in str(error)) == (UserError, True)
    assert "listens beyond loopback" in str(invoke("runs", "submit", "quickstart")[2])


NO_INSTALLATION = [
    *(("runs", "submit", "quickstart"), ("rubrics", "versions"), ("rubrics", "approve", "1")),
    *(("study", "labels", "today-1", STAGE), ("study", "preferences", "today-1")),
]


@pytest.fixture
def named(url, monkeypatch):
    """Commands speak to the installation, as its admin."""
    monkeypatch.setenv("RUBRICWORKS_API", url)
    monkeypatch.setenv("RUBRICWORKS_API_TOKEN", TOKEN)
    return url


def test_a_log_is_printed_or_followed_to_the_end_of_its_run(named, folder):
    code, printed, _ = invoke("runs", "logs", "today-1", STAGE)
    assert (code, printed) == (0, "asked https://***@host/v1\nended\n")
    assert invoke("runs", "logs", "today-1", STAGE, "--follow")[1] == printed
    assert "prepare of today-1 has no log" in str(invoke("runs", "logs", "today-1", "prepare")[2])
    here = ("--runs", str(folder))
    assert invoke("runs", "logs", "today-1", STAGE, *here)[1] == printed
    assert invoke("runs", "logs", "today-1", STAGE, "--follow", *here)[1] == printed
    assert "has no log; its stages: prepare, train_policy" in str(invoke("runs", "logs", "today-1", "no", *here)[2])


def test_lines_of_a_log_come_while_its_run_is_going(named, folder, monkeypatch):
    monkeypatch.setattr(runs_router, "_SECONDS", 0.02)
    run = write_run(folder, "going-1")
    (run / "outcome.json").unlink()
    (run / STAGE / "done.json").unlink()
    log, printed = run / "logs" / f"{STAGE}.log", []
    with lock_folder(run):
        wait_for(lambda: ask(f"{named}/api/v1/runs/going-1", **bearer())[1].get("state") == "going")
        events = ApiClient(named, TOKEN).events(
            f"runs/going-1/stages/{api_runs.last_stage(named_api(), 'going-1')}/log/events"
        )
        printed.append(next(events).data)
        with log.open("a") as file:
            file.write("step 3\n")
        printed.append(next(events).data)
    (run / "outcome.json").write_text('{"state": "SUCCEEDED", "message": ""}')
    assert [event.name for event in events] == ["end"]
    assert printed == ["asked https://***@host/v1\nended\n", "step 3\n"]


def test_labels_and_preferences_go_out_and_in(named, home):
    row = ["a", NAMES[0], "yes", "a star", "paula"]
    (home / "labels.csv").write_text("sample_id,criterion,label,response,rater\n" + ",".join(row) + "\n")
    place = ("study", "labels", "today-1", STAGE)
    assert invoke(*place, "--add", str(home / "labels.csv"))[1] == "1 labels are stored\n"
    assert list(csv.reader(invoke(*place)[1].splitlines()))[1:] == [["a", "", NAMES[0], "1", "a star", "paula"]]
    (home / "preferences.csv").write_text("sample_id,first,second,choice\na,base,policy,second\n")
    place = ("study", "preferences", "today-1")
    assert invoke(*place, "--add", str(home / "preferences.csv"))[1] == "1 preferences are stored\n"
    assert invoke(*place)[1].splitlines()[1:] == ["a,,base,policy,second,environment"]
    (home / "preferences.csv").write_text("sample_id,first,second,choice\na,base,nobody,second\n")
    assert "has no responses of 'nobody'" in str(invoke(*place, "--add", str(home / "preferences.csv"))[2])
    between = f"judge in today-1/{STAGE},judge in other-2/{STAGE},neither"
    (home / "judges.csv").write_text(f"sample_id,response,criterion,first,second,choice\na,a star,,{between}\n")
    assert invoke(*place, "--judges", "--add", str(home / "judges.csv"))[1] == "1 preferences are stored\n"
    assert invoke(*place, "--judges")[1].splitlines()[1:] == [f"a,,a star,,{between},environment"]


def test_a_rubric_is_proposed_by_one_person_and_approved_or_rejected_by_another(named, home, monkeypatch):
    secret = invoke("tokens", "create", "anna", "--scope", "runner")[1].strip()
    for reason, decision in (("Counts the cups", "approve"), ("Counts the plates", "reject")):
        (home / "better.json").write_text(json.dumps(rubric(reason)))
        monkeypatch.setenv("RUBRICWORKS_API_TOKEN", secret)
        printed = invoke("rubrics", "propose", "today-1", "a", str(home / "better.json"), "--reason", reason)[1]
        number = printed.split(":")[0].removeprefix("proposal ")
        assert number in invoke("rubrics", "versions", "--state", "proposed")[1]
        assert "is a runner" in str(invoke("rubrics", "approve", number)[2])
        monkeypatch.setenv("RUBRICWORKS_API_TOKEN", TOKEN)
        code, printed, _ = invoke("rubrics", decision, number, "--reason", "seen")
        assert (code, f"is {decision.removesuffix('e')}ed" in printed) == (0, True)
    standing = named_api().get("runs/today-1/rubrics/synthesize_rubrics/a")
    assert (standing["version"], standing["rubric"]["criteria"][0]["criterion"]) == (2, "Counts the cups")
    (home / "better.json").write_text('{"criteria": [{"criterion": ""}]}')
    refused = str(invoke("rubrics", "propose", "today-1", "a", str(home / "better.json"), "--reason", "no")[2])
    assert refused.startswith(f"{home / 'better.json'}: criteria.0.criterion: ")


def test_dead_letters_are_asked_again(named, folder):
    for place in ((), ("--runs", str(folder))):
        write_letters(folder / "letters-1")
        code, printed, _ = invoke("runs", "ask-again", "letters-1", "caption_committee", *place)
        assert (code, "reopened for 3 dead letters; resume it: rubricworks run --resume letters-1" in printed) == (
            0,
            True,
        )
        assert not (folder / "letters-1" / "caption_committee" / "done.json").exists()
        assert "has no finished table of dead letters" in str(
            invoke("runs", "ask-again", "letters-1", "caption_committee", *place)[2]
        )


def test_tokens_are_those_of_the_installation_unless_a_folder_is_named(named, home):
    secret = invoke("tokens", "create", "bert", "--scope", "viewer")[1].strip()
    assert ApiClient(named, secret).get("caller") == {"name": "bert", "scope": "viewer", "project": None}
    assert re.search(r"^bert +viewer +expires .* created by environment$", invoke("tokens", "list")[1], re.MULTILINE)
    assert invoke("tokens", "revoke", "bert")[1] == "bert is revoked\n"
    assert re.search(r"^bert +viewer +revoked ", invoke("tokens", "list")[1], re.MULTILINE)
    with pytest.raises(UserError, match="the token is missing"):
        ApiClient(named, secret).get("caller")
    assert "there is no token named 'nobody'" in str(invoke("tokens", "revoke", "nobody")[2])
    assert "bert" not in invoke("tokens", "list", "--runs", str(home))[1]


@pytest.mark.parametrize("command", NO_INSTALLATION, ids=" ".join)
def test_without_a_named_installation_a_command_says_how_to_name_one(command):
    assert "name the installation by RUBRICWORKS_API" in str(invoke(*command)[2])


@pytest.mark.parametrize("url", ["ftp://host", "host:8080", "http://", "https://me:secret@host", "http://host/?a=b"])
def test_an_address_of_another_form_is_refused_without_its_password(url):
    with pytest.raises(UserError, match="write the API's address as https://host") as refused:
        ApiClient(url, None)
    assert "secret" not in str(refused.value)


def test_an_api_that_is_away_is_a_failure_that_may_pass(monkeypatch):
    monkeypatch.setattr(installation, "_PAUSE", 0)
    with pytest.raises(TransientError, match="does not answer"):
        ApiClient("http://127.0.0.1:9", "token").get("caller")


@pytest.fixture
def recorder(monkeypatch):
    """A server that answers with the statuses that it is given, then 200, and keeps the head of each request."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.server.heads.append(self.headers)
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(self.server.statuses.pop(0) if self.server.statuses else 200)
            self.end_headers()
            self.wfile.write(b'{"detail": "restarted"}')

        def log_message(self, *_):
            pass

    monkeypatch.setattr(installation, "_PAUSE", 0)
    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.heads, server.statuses = [], []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_possibly_received_request_is_repeated_under_its_key(recorder):
    api = ApiClient(f"http://127.0.0.1:{recorder.server_port}", "token")
    recorder.statuses += [503, 502]
    api.post("promotions", {})
    api.post("promotions", {})
    keys = [head["Idempotency-Key"] for head in recorder.heads]
    assert (len(keys), len(set(keys[:3])), len(set(keys))) == (4, 1, 2)
    recorder.statuses += [503] * 3
    with pytest.raises(TransientError, match="restarted"):
        api.post("promotions", {})
    recorder.statuses += [500]
    with pytest.raises(TransientError, match="restarted"):
        api.post("promotions", {})
    assert len(recorder.heads) == 8, "500 is no sign that another attempt helps"


def test_stored_token_is_for_its_installation_and_the_environments_wins(recorder, monkeypatch):
    url = f"http://127.0.0.1:{recorder.server_port}"
    installation.store_token("https://elsewhere.example", "of-another")
    open_api(url).post("promotions", {})
    installation.store_token(url, "stored")
    open_api(url).post("promotions", {})
    monkeypatch.setenv("RUBRICWORKS_API_TOKEN", "of-the-environment")
    open_api(url).post("promotions", {})
    sent = [head["Authorization"] for head in recorder.heads]
    assert sent == [None, "Bearer stored", "Bearer of-the-environment"]
