"""Rollouts found one by one: by text, reward, criterion, file, limit of tokens; each with an address of its own."""

from urllib.parse import quote

import pytest
from served_api import ask, exchange, served, wait_for_rollouts
from trained_run import NAMES, STAGE, write_run

from rubricworks.platform_api.services import rollout_search
from rubricworks.platform_api.services.judgements.labels import response_digest
from rubricworks.platform_api.settings import ApiSettings

LONG = "a red star <script>alert(1)</script>"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    run = write_run(folder, sources={"a": "photos/brick.jpg"})
    recipe = "name: quickstart\npolicy: {algorithm: {rollouts: {max_new_tokens: 7}}}\n"
    (run / "recipe.yaml").write_text(recipe)
    write_run(folder, "other-1")
    with served(ApiSettings(storage=str(folder), index_seconds=0.05)) as url:
        wait_for_rollouts(url)
        wait_for_rollouts(url, "other-1")
        yield url


def search(url, query, run="today-1"):
    return ask(f"{url}/api/v1/runs/{run}/stages/{STAGE}/rollouts?{query}")[1]


def places(url, query):
    return [(item["step"], item["sample_id"], item["response"][:6]) for item in search(url, query)["items"]]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("text=RED%20ST", [(1, "a", "a red "), (1, "b", "a red "), (2, "a", "a red "), (2, "b", "a red ")]),
        ("text=red&step=2&file=brick", [(2, "a", "a red ")]),
        ("text=%25", []),
        ("text=.", []),
        ("least=0.6&most=0.7", [(1, "a", "a red "), (1, "b", "a red ")]),
        ("least=0.7&sort=reward&order=desc&limit=1", [(2, "b", "a red ")]),
        ("unjudged=true&step=1", [(1, "a", ""), (1, "b", "")]),
        (f"criterion={quote(NAMES[2])}&met=met", [(2, "a", "a red "), (2, "b", "a red ")]),
        (f"criterion={quote(NAMES[2])}&met=unmet&step=2", [(2, "a", "a star"), (2, "b", "a star")]),
        (
            f"criterion={quote(NAMES[1])}&met=unmet&text=star&sort=reward&step=1",
            [(1, "a", "a star"), (1, "b", "a star")],
        ),
        ("criterion=no%20such", []),
    ],
)
def test_rollouts_are_found(url, query, expected):
    assert places(url, query) == expected


def test_a_text_is_found_as_written_whatever_it_is_a_pattern_of(url):
    assert len(places(url, "text=" + quote("<script>alert(1)"))) == 4
    assert places(url, "text=" + quote("star.*alert")) == []


def test_rollouts_that_were_cut_off_are_those_at_the_recipes_limit(url):
    assert len(search(url, "truncated=true")["items"]) == 12
    assert "has no policy.algorithm.rollouts.max_new_tokens" in search(url, "truncated=true", "other-1")["detail"]
    status, _, body = exchange(f"{url}/runs/other-1/responses/{STAGE}?truncated=true")
    assert (status, b'role="alert"' in body) == (422, True)


@pytest.mark.parametrize("query", ["sort=reward&order=desc", "", "text=star", f"criterion={quote(NAMES[0])}"])
def test_pages_of_found_rollouts_are_the_whole_list(url, query):
    whole = search(url, f"{query}&limit=200")["items"]
    result, cursor = [], ""
    while cursor is not None:
        page = search(url, f"{query}&limit=5{cursor and '&cursor=' + cursor}")
        result += page["items"]
        cursor = page["next_cursor"]
    assert result == whole
    assert len(whole) in (8, 12)


def test_a_search_that_ends_early_leads_on_and_one_of_too_many_matches_says_so(url, monkeypatch):
    monkeypatch.setattr(rollout_search, "_MOST_SEARCHED", 5)
    first = search(url, f"criterion={quote(NAMES[2])}&met=met")
    assert first["items"] == []
    monkeypatch.setattr(rollout_search, "_MOST_SEARCHED", 50)
    following = search(url, f"criterion={quote(NAMES[2])}&met=met&cursor={first['next_cursor']}")
    assert [item["step"] for item in following["items"]] == [2, 2]
    monkeypatch.setattr(rollout_search, "_MOST_MATCHES", 3)
    cut = search(url, "text=star")
    assert (cut["is_cut"], len(cut["items"])) == (True, 3)


def test_a_rollout_has_an_address_that_marks_its_column(url):
    (item,) = search(url, "text=alert&step=1&file=brick")["items"]
    assert item["digest"] == response_digest(LONG)
    page = exchange(f"{url}/runs/today-1/responses/{STAGE}?text=ALERT")[2].decode()
    address = f"/runs/today-1/rollouts/{STAGE}/1/a?response={item['digest']}#marked"
    assert address in page
    assert "<mark>alert</mark>(1)&lt;/script&gt;" in page
    group = exchange(url + address.removesuffix("#marked"))[2].decode()
    assert group.count('<th scope="col" class="marked">') == 1
    assert group.count('id="marked"') == 1
    for number in (1, 2, 3):
        assert f">{number}<span" in group
