"""Pictures are called by the names of their files, and found by them."""

import csv
import html
import io
import re

import pytest
from served_api import ask, exchange, served, wait_for_rollouts
from trained_run import NAMES, STAGE, finish_tables, write_letters, write_rubrics, write_run, write_table

from rubricworks.platform_api.settings import ApiSettings

RUN = "today-1"
CSV = {"Content-Type": "text/csv"}
HOSTILE = "50%_<b>.jpg"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    run = write_run(folder, RUN, sources={"a": "photos/house/Brick.jpg", "b": f"photos/{HOSTILE}"})
    finish_tables(run)
    answers = [
        {"sample_id": sample, "model": model, "revision": "r", "decoding": "greedy", "response": f"by {number}"}
        for sample in "ab"
        for number, model in enumerate(("base", "policy"))
    ]
    write_table(run / "score" / "responses", "responses", answers)
    write_rubrics(run)
    write_letters(run, samples=("a", "b", "gone"))
    with served(ApiSettings(storage=str(folder), index_seconds=0.05)) as url:
        wait_for_rollouts(url, RUN)
        yield url


def page(url: str, path: str) -> str:
    status, _, body = exchange(f"{url}/runs/{RUN}/{path}", Accept="text/html")
    assert status == 200, body.decode()
    return body.decode()


def heading(text: str) -> str:
    return html.unescape(re.search(r"<h1>(.*?)</h1>", text)[1])


def links(text: str) -> list[str]:
    return [html.unescape(name) for name in re.findall(r"<tr data-item>.*?<a [^>]*>(.*?)</a>", text, re.DOTALL)]


def test_pages_of_rollouts_and_rubrics_call_pictures_by_their_files(url):
    assert links(page(url, f"rollouts/{STAGE}?step=2")) == ["Brick.jpg", HOSTILE]
    assert heading(page(url, f"rollouts/{STAGE}/2/a")) == "Brick.jpg"
    assert links(page(url, "rubrics/synthesize_rubrics")) == ["Brick.jpg", HOSTILE, "c"]
    assert heading(page(url, "rubrics/synthesize_rubrics/a")) == "Rubric of Brick.jpg"


def test_dead_letters_call_pictures_by_their_files_and_others_by_their_ids(url):
    named = re.findall(r"· sample (.*?) ·", page(url, "dead-letters"))
    assert [html.unescape(name) for name in named] == ["Brick.jpg", HOSTILE, "gone"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("brick", ["Brick.jpg"] * 2),
        (".jpg", ["Brick.jpg", HOSTILE] * 2),
        ("a", ["Brick.jpg"] * 2),
        ("0%_", [HOSTILE] * 2),
        ("_rick", []),
        ("house", []),
    ],
)
def test_rollouts_are_found_by_a_part_of_the_files_name(url, text, names):
    query = text.replace("%", "%25")
    text_of_page = page(url, f"rollouts/{STAGE}?file={query}")
    assert links(text_of_page) == names
    assert ("No rollouts of a picture" in text_of_page) is (not names)
    groups = ask(f"{url}/api/v1/runs/{RUN}/stages/{STAGE}/groups?file={query}")[1]["items"]
    assert len(groups) == len(names)


def test_blind_pages_call_the_picture_by_its_file_and_name_no_model_beside_it(url):
    text = page(url, "compare?first=base&second=policy")
    shown = text[
        text.index("Choose</button>") : text.index('<details class="results"') if "results so far" in text else None
    ]
    assert re.search(r'<p class="quiet">(.*?)</p>', shown)[1] in ("Brick.jpg", html.escape(HOSTILE))
    visible = re.sub(r"<[^>]*>", " ", shown)
    assert "policy" not in visible
    assert "base" not in visible


def test_labels_and_preferences_as_csv_have_the_names_of_files(url):
    def rows(place):
        return list(csv.DictReader(io.StringIO(exchange(f"{url}/api/v1/runs/{RUN}/{place}/csv")[2].decode())))

    texts = {
        f"stages/{STAGE}/labels": f"sample_id,criterion,label,response\na,{NAMES[0]},1,a star\n",
        "preferences": "sample_id,first,second,choice\nb,base,policy,second\n",
    }
    for place, text in texts.items():
        status, answer = ask(f"{url}/api/v1/runs/{RUN}/{place}/csv", method="POST", body=text.encode(), **CSV)
        assert status == 200, answer
    assert [row["file_name"] for row in rows(f"stages/{STAGE}/labels")] == ["Brick.jpg"]
    assert [row["file_name"] for row in rows("preferences")] == [HOSTILE]
