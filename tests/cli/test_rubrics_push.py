"""`rubricworks rubrics push`: a data set with its card, on a server that answers as the Hub does, and back again."""

import json
import threading
from base64 import b64decode
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hub_stand_in import COMMIT, Hub
from huggingface_hub import DatasetCard

from rubricworks.data.rubric_sets import read_rubric_set

PEOPLE = Path(__file__).parents[1] / "data" / "rubric_files" / "people.csv"


class WritableHub(Hub):
    """The Hub's API of `org/mine`, to which the token `key` may write."""

    names = ("org/mine",)
    made: dict[str, object]

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def do_POST(self):
        path = urlsplit(self.path).path
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Authorization") != "Bearer key":
            return self.answer(403, {"error": "Forbidden"})
        if path == "/api/repos/create":
            self.made.update(json.loads(body))
            return self.answer(200, {"url": f"{self.address}/datasets/org/mine"})
        if path == "/api/validate-yaml":
            return self.answer(200, {"errors": [], "warnings": []})
        if path.startswith("/api/datasets/org/mine/preupload/"):
            files = [
                {"path": one["path"], "uploadMode": "regular", "shouldIgnore": False}
                for one in json.loads(body)["files"]
            ]
            return self.answer(200, {"files": files})
        assert path.startswith("/api/datasets/org/mine/commit/"), path
        for line in body.splitlines():
            if (one := json.loads(line))["key"] == "file":
                self.files[one["value"]["path"]] = b64decode(one["value"]["content"])
            else:
                self.made["summary"] = one["value"]["summary"]
        return self.answer(
            200,
            {"success": True, "commitUrl": f"{self.address}/datasets/org/mine/commit/{COMMIT}", "commitOid": COMMIT},
        )


@pytest.fixture
def hub(tmp_path, monkeypatch):
    attributes = {"asked": [], "files": {}, "made": {}}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Mine", (WritableHub,), attributes))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("HF_TOKEN", "key")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    yield attributes
    server.shutdown()


def test_a_set_goes_to_the_hub_and_comes_back_as_it_was(hub, tell):
    done = tell("rubrics", "push", PEOPLE, "org/mine")
    assert (done.code, done.out) == (0, f"org/mine@{COMMIT}: 2 rubrics\n"), done
    assert (hub["made"]["name"], hub["made"]["organization"]) == ("mine", "org")
    assert (hub["made"]["visibility"], hub["made"]["summary"]) == ("private", "Add 2 rubrics")
    assert set(hub["files"]) == {"README.md", "data/train.parquet"}
    back = list(read_rubric_set(f"org/mine@{COMMIT}", note=print))
    ours = {one.sample_id: one.rubric for one in read_rubric_set(PEOPLE, note=print)}
    assert {one.sample_id: one.rubric for one in back} == ours


def test_the_card_is_one_that_the_hub_reads_and_counts_what_is_there(hub, tell):
    assert tell("rubrics", "push", PEOPLE, "org/mine", "--public").code == 0
    assert hub["made"]["visibility"] == "public"
    card = DatasetCard(hub["files"]["README.md"].decode())
    assert card.data.to_dict()["configs"] == [
        {"config_name": "default", "data_files": [{"split": "train", "path": "data/train.parquet"}]}
    ]
    assert card.data.size_categories == ["n<1K"]
    rubrics = [one.rubric for one in read_rubric_set(PEOPLE, note=print)]
    criteria = [one for rubric in rubrics for one in rubric.criteria]
    assert f"| rubrics | {len(rubrics)} |" in card.text
    assert f"| criteria | {len(criteria)} |" in card.text
    assert f"| pitfalls (negative weight) | {sum(one.weight < 0 for one in criteria)} |" in card.text


def test_out_shows_the_files_and_asks_nobody(hub, tell, tmp_path):
    done = tell("rubrics", "push", PEOPLE, "org/mine", "--sample", "s1", "--out", "card")
    assert (done.code, done.out) == (0, "card: 1 rubrics and their card, not uploaded\n")
    assert (tmp_path / "card" / "data" / "train.parquet").is_file()
    assert not hub["files"]
    again = tell("rubrics", "push", PEOPLE, "org/mine", "--out", "card")
    assert (again.code, "is there already" in again.err) == (2, True)


@pytest.mark.parametrize(
    ("token", "name", "message"),
    [
        ("", "org/mine", "needs a token that may write; set HF_TOKEN"),
        ("other", "org/mine", "HF_TOKEN may not write there (HTTP 403)"),
        ("key", "org/mine/more", "is no name of a repository"),
    ],
)
def test_what_keeps_it_from_the_hub_is_told(hub, tell, monkeypatch, token, name, message):
    monkeypatch.setenv("HF_TOKEN", token)
    done = tell("rubrics", "push", PEOPLE, name)
    assert done.code == 2
    assert message in done.err
    assert len(done.err.strip().splitlines()) == 1
