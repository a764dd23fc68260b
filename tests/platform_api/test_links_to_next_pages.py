"""Links to next pages: each list, followed from link to link as a browser does, is the whole list under its filters."""

import contextlib
import json
import re
import sqlite3
from html.parser import HTMLParser
from urllib.parse import parse_qs, quote, urljoin, urlsplit

import pytest
from served_api import ask, exchange, served, wait_for_rollouts
from stored_audit import write_audit
from trained_run import NAMES, STAGE, rubric, write_rubrics, write_run, write_table

from rubricworks.platform_api.routers import dependencies
from rubricworks.platform_api.routers.pages import rollouts
from rubricworks.platform_api.services import reward_hacking
from rubricworks.platform_api.settings import ApiSettings

SET = "synthesize_rubrics"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    run = write_run(folder)
    write_audit(run / "audit")
    write_rubrics(run)
    for name in ("bad-1", "bad-2"):
        other = write_run(folder, name)
        (other / "outcome.json").unlink()
        (other / "error.json").write_text('{"stage": "prepare", "message": "away"}')
        write_table(other / SET, "rubrics", [])
    lost = [{"sample_id": f"s{n}", "stage": "judge", "reason": why} for n, why in enumerate(("slow", "odd", "slow"))]
    for path in (run, other):
        write_table(path / "judge" / "dead_letters", "dead_letters", lost)
    others = [{"sample_id": item, "writer": "writer-1", "rubric": json.dumps(rubric("Is short"))} for item in "abc"]
    write_table(folder / "good-1" / SET, "rubrics", others)
    (folder / "good-1" / "recipe.yaml").write_text("name: quickstart\n")
    with served(ApiSettings(storage=str(folder), index_seconds=0.05)) as url, pytest.MonkeyPatch.context() as patch:
        patch.setattr(dependencies, "PAGE", 1)
        patch.setattr(reward_hacking, "CASES", 1)
        patch.setattr(rollouts, "_FLIPS", 1)
        for name in ("first", "second", "third"):
            assert ask(f"{url}/api/v1/tokens", method="POST", body={"name": name, "scope": "viewer"})[0] == 201
        wait_for_rollouts(url)
        add_run_tokens(folder / "platform.db")
        yield url


def add_run_tokens(path):
    """Tokens as two submitted runs have them."""
    columns = "scope, created_at, created_by, expires_at"
    with contextlib.closing(sqlite3.connect(path, timeout=20)) as database, database:
        for run in ("run:a", "run:b"):
            database.execute(
                f"INSERT INTO tokens (name, digest, {columns}) SELECT ?, ?, {columns} FROM tokens WHERE name = 'first'",
                (run, run),
            )


class NextLink(HTMLParser):
    """Address of a page's link to the next part of its list."""

    address = None

    def handle_starttag(self, tag, attributes):
        result = dict(attributes)
        if tag == "a" and result.get("rel") == "next" and "cursor=" in result["href"]:
            self.address = result["href"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "pattern", "items"),
    [
        ("/runs", r'"/runs/(\w+-\d)"', ["bad-1", "bad-2", "good-1", "today-1"]),
        ("/runs?state=failed", r'"/runs/(\w+-\d)"', ["bad-1", "bad-2"]),
        ("/runs?search=d-1&state=failed", r'"/runs/(\w+-\d)"', ["bad-1"]),
        (f"/runs/today-1/rollouts/{STAGE}?step=1", rf'{STAGE}/(\d/\w)"', ["1/a", "1/b"]),
        (f"/runs/today-1/rollouts/{STAGE}?sample_id=a", rf'{STAGE}/(\d/\w)"', ["1/a", "2/a"]),
        (f"/runs/today-1/rollouts/{STAGE}?step=2&sample_id=b", rf'{STAGE}/(\d/\w)"', ["2/b"]),
        (
            f"/runs/today-1/rollouts/{STAGE}?criterion={quote(NAMES[2])}",
            rf'{STAGE}/(\d/\w)"',
            ["1/a", "1/b", "2/a", "2/b"],
        ),
        ("/runs/today-1/hacking?mode=wrong_but_plausible", r"sample (\w)</a>", ["w", "y"]),
        ("/runs/today-1/hacking", r"sample (\w)</a>", ["w", "x", "y"]),
        ("/runs/today-1/dead-letters", r"\b(s\d)\b", ["s0", "s1", "s2"]),
        ("/runs/today-1/dead-letters?stage=judge&reason=slow", r"\b(s\d)\b", ["s0", "s2"]),
        ("/dead-letters", r'"/runs/(\w+-\d)/dead-letters', ["bad-2", "today-1"]),
        ("/changes", r"<td>token.create</td><td>(\w+)</td>", ["first", "second", "third"]),
        ("/tokens", r'title">([\w:]+)</span>', ["first", "second", "third"]),
        ("/tokens?runs=true", r'title">([\w:]+)</span>', ["first", "run:a", "run:b", "second", "third"]),
        ("/rubrics", rf'"/runs/(\w+-\d)/rubrics/{SET}"', ["bad-1", "bad-2", "good-1", "today-1"]),
        (f"/runs/today-1/rubrics/{SET}", rf'{SET}/(\w)"', ["a", "b", "c"]),
        (f"/runs/today-1/rubrics/{SET}/compare?before_set=good-1/{SET}", rf"{SET}/(\w)/diff", ["a", "b", "c"]),
    ],
)
def test_next_pages_are_the_whole_list_under_its_filters(url, page, pattern, items):
    seen, address = [], url + page
    for _ in range(len(items)):
        status, _, body = exchange(address)
        assert status == 200, body
        seen += dict.fromkeys(re.findall(pattern, body.decode()))
        link = NextLink()
        link.feed(body.decode())
        if link.address is None:
            break
        address = urljoin(address, link.address)
        given, stored = (parse_qs(urlsplit(item).query) for item in (page, address))
        assert {name: stored.get(name) for name in given} == given
    assert (sorted(seen), link.address) == (items, None)
