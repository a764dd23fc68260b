import json
import re
import socket
from functools import partial

import pytest
from kubeflow_api import FakeKubeflow

from rubricworks.errors import UserError
from rubricworks.kubeflow.connection import connect
from rubricworks.kubeflow.remote_runs import list_page, list_runs, show_run
from rubricworks.recipe.kubeflow import KubeflowConfig


@pytest.fixture(autouse=True)
def nobody_is_logged_in(monkeypatch, tmp_path):
    for name in ("RUBRICWORKS_KUBEFLOW", "RUBRICWORKS_KUBEFLOW_TOKEN", "RUBRICWORKS_KUBEFLOW_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KF_PIPELINES_SA_TOKEN_PATH", str(tmp_path / "no-token"))


@pytest.fixture
def kubeflow():
    with FakeKubeflow() as fake:
        yield fake


def test_a_token_from_the_environment_lets_us_in(monkeypatch):
    monkeypatch.setenv("TEAM_TOKEN", "s3cret")
    with FakeKubeflow(token="s3cret") as fake:
        assert list_runs(connect(KubeflowConfig(url=fake.url, token_env="TEAM_TOKEN"))) == []
        with pytest.raises(UserError, match=r"asks for a token; name it in cluster.kubeflow.token_env \(HTTP 401\)"):
            connect(KubeflowConfig(url=fake.url))
        monkeypatch.setenv("RUBRICWORKS_KUBEFLOW_TOKEN", "old")
        with pytest.raises(UserError, match=r"does not accept the token; renew it \(HTTP 401\)$") as refused:
            connect(KubeflowConfig(url=fake.url))
        assert "old" not in str(refused.value)


def test_a_token_in_a_file_is_read_again_for_every_request(tmp_path):
    token = tmp_path / "token"
    token.write_text("monday\n")
    with FakeKubeflow(token="monday") as fake:
        connection = connect(KubeflowConfig(url=fake.url, token_file=str(token)))
        fake.token = "tuesday"
        with pytest.raises(UserError, match="renew the token"):
            list_runs(connection)
        token.write_text("tuesday\n")
        assert list_runs(connection) == []


def test_a_pod_finds_the_token_that_is_mounted_for_it(monkeypatch, tmp_path):
    (tmp_path / "mounted").write_text("of the pod")
    monkeypatch.setenv("KF_PIPELINES_SA_TOKEN_PATH", str(tmp_path / "mounted"))
    with FakeKubeflow(token="of the pod") as fake:
        assert list_runs(connect(KubeflowConfig(url=fake.url))) == []


def test_the_cookie_of_a_session_is_sent(monkeypatch, kubeflow):
    cookies = []
    monkeypatch.setenv("SESSION", "authservice_session=abc")
    answer = kubeflow._answer
    kubeflow._answer = lambda method, path, headers, body: (
        cookies.append(headers),
        answer(method, path, headers, body),
    )[1]
    list_runs(connect(KubeflowConfig(url=kubeflow.url, cookie_env="SESSION")))
    assert [headers.get("Cookie") for headers in cookies] == ["authservice_session=abc"] * len(cookies)


def test_a_profile_is_asked_for_where_there_are_many_and_sent_with_every_request():
    with FakeKubeflow(multi_user=True) as fake:
        with pytest.raises(UserError, match=r"name yours in cluster.namespace or RUBRICWORKS_KUBEFLOW_NAMESPACE$"):
            connect(KubeflowConfig(url=fake.url))
        assert list_runs(connect(KubeflowConfig(url=fake.url), "team")) == []
        assert "namespace=team" in fake.asked[-1][1]
        with pytest.raises(UserError, match=r"not authorized to list runs in namespace other \(HTTP 403\)"):
            list_runs(connect(KubeflowConfig(url=fake.url, namespace="other"), "team"))


@pytest.mark.parametrize("version", ["2.16.0", "v2.17.3", "2.99.0"])
def test_a_supported_backend_tells_its_version(version):
    with FakeKubeflow(version=version) as fake:
        assert connect(KubeflowConfig(url=fake.url)).version == version.removeprefix("v")


@pytest.mark.parametrize("version", ["2.15.2", "1.8.22", "3.0.0"])
def test_another_backend_is_refused_before_anything_is_sent(version):
    with FakeKubeflow(version=version) as fake:
        with pytest.raises(UserError, match=f"is {re.escape(version)}; these pipelines need 2.16 or later, before 3$"):
            connect(KubeflowConfig(url=fake.url))
        assert len(fake.asked) == 1


def test_an_api_server_that_tells_no_version_is_known_by_what_2_14_brought(kubeflow):
    assert connect(KubeflowConfig(url=kubeflow.url)).version == "2.14 or later"
    del kubeflow.health["pipeline_store"]
    with pytest.raises(UserError, match=r"older than 2.14; these pipelines need 2.16 or later, before 3$"):
        connect(KubeflowConfig(url=kubeflow.url))


def test_what_is_no_kubeflow_is_told_in_one_line(kubeflow, monkeypatch):
    answers = {
        (404, "text/plain", b""): "has no v2 API of Kubeflow Pipelines",
        (302, "text/html", b""): "answers with a page to log in",
        (200, "text/html", b"<html>Log in</html>"): "answers with a page to log in",
        (200, "application/json", b"[1]"): "is not Kubeflow Pipelines",
        (200, "application/json", b"[" * 90_000): "answers with a page to log in",
        (503, "text/plain", b"upstream"): "answers HTTP 503; look at its ml-pipeline pods",
    }
    for answer, message in answers.items():
        kubeflow.answer_instead = lambda method, path, answer=answer: answer
        with pytest.raises(UserError, match=message) as refused:
            connect(KubeflowConfig(url=kubeflow.url))
        assert "\n" not in str(refused.value)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        with pytest.raises(UserError, match=r"no Kubeflow Pipelines at .*refused.*kubectl -n kubeflow port-forward"):
            connect(KubeflowConfig(url=f"http://127.0.0.1:{listener.getsockname()[1]}"))
    with pytest.raises(UserError, match=r"RUBRICWORKS_KUBEFLOW is not set; it holds cluster.kubeflow.url"):
        connect(KubeflowConfig())
    with pytest.raises(UserError, match="has no http:// or https://"):
        connect(KubeflowConfig(url="kubeflow.example"))


def test_a_backend_that_fails_later_is_told_in_one_line(kubeflow):
    connection = connect(KubeflowConfig(url=kubeflow.url))
    kubeflow.answer_instead = lambda method, path: (500, "application/json", b'{"message": "MySQL has\\ngone away."}')
    with pytest.raises(UserError, match=r"cannot list runs: MySQL has gone away \(HTTP 500\)$"):
        list_runs(connection)
    kubeflow.answer_instead = lambda method, path: (502, "text/html", b"<html>")
    with pytest.raises(UserError, match=r"cannot list runs: Bad Gateway \(HTTP 502\)$"):
        list_runs(connection)
    message = json.dumps({"message": f"password=hunter2 \ud800 {'<b>' * 500}"}).encode()
    kubeflow.answer_instead = lambda method, path: (400, "application/json", message)
    with pytest.raises(UserError, match=r": password=\*\*\* \? (<b>){50,60}\S*…\S*(<b>){30,33} \(HTTP 400\)$"):
        list_runs(connection)


@pytest.mark.parametrize("answer", [b"null", b"[" * 90_000, b'{"runs": [{"display_name": "a"}]}'])
def test_a_backend_whose_answer_is_none_of_kubeflow_is_told_in_one_line(kubeflow, answer):
    connection = connect(KubeflowConfig(url=kubeflow.url))
    kubeflow.answer_instead = lambda method, path: (200, "application/json", answer)
    for ask in (list_runs, partial(show_run, run="a"), partial(list_page, limit=5)):
        with pytest.raises(UserError, match="its answer is none of Kubeflow's"):
            ask(connection)
