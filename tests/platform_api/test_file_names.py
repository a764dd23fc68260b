"""Pictures are called by the names of their files, and found by them."""

import html
import re

import pytest
from served_api import ask, exchange, served, wait_for_rollouts
from trained_run import STAGE, write_letters, write_rubrics, write_run

from rubricworks.platform_api.settings import ApiSettings

RUN = "today-1"
HOSTILE = "50%_<b>.jpg"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    run = write_run(folder, RUN, sources={"a": "photos/house/Brick.jpg", "b": f"photos/{HOSTILE}"})
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
