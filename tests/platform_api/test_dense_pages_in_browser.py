"""Lists of runs and rollouts fill the screen: a line a row, pictures first, filters folded on a phone."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import chromium
from playwright.sync_api import Browser, Page, expect
from served_api import served, wait_for_rollouts
from trained_run import STAGE, finish_tables, write_run
from winning_scores import winning_scores

from rubricworks.evaluation.scoreboard import SCORES_FILE
from rubricworks.llm.spending import SPENDING_FILE, merge_spending
from rubricworks.platform_api.settings import ApiSettings

pytestmark = pytest.mark.slow
ROLLOUTS = f"/runs/won-1/responses/{STAGE}"
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def url(tmp_path_factory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("runs")
    for name, cost in (("won-1", 0.0), ("plain-1", 2.5)):
        run = write_run(folder, name)
        finish_tables(run)
        calls = {"calls": 3, "cached": 0, "requests": 3, "prompt_tokens": 70, "completion_tokens": 9, "cost": cost}
        more = {"seconds": 1.0, "cached_tokens": 0, "errors": {}}
        merge_spending(run / SPENDING_FILE, [{"stage": STAGE, "purpose": "judge", "model": "m", **calls, **more}])
    (folder / "won-1" / "score").mkdir()
    (folder / "won-1" / "score" / SCORES_FILE).write_text(winning_scores().model_dump_json())
    with served(ApiSettings(storage=str(folder), index_seconds=0.05)) as url:
        for name in ("won-1", "plain-1"):
            wait_for_rollouts(url, name)
        yield url


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


def opened(browser: Browser, address: str, **size: int) -> Page:
    page = browser.new_page(viewport=size or {"width": 1280, "height": 800})
    page.goto(address)
    return page


def row(page: Page, text: str) -> dict[str, float]:
    return page.get_by_role("row").filter(has_text=text).first.bounding_box()


def test_win_rate_and_its_interval_share_a_line(browser, url):
    page = opened(browser, f"{url}/runs")
    expect(page.get_by_role("row").filter(has_text="won-1").locator("small")).to_be_visible()
    assert row(page, "won-1")["height"] == pytest.approx(row(page, "plain-1")["height"], abs=3)


def test_picture_of_a_rollout_stands_before_its_text_and_sets_no_height(browser, url):
    page = opened(browser, f"{url}{ROLLOUTS}")
    first = page.locator("tbody tr").first
    picture, text = first.locator(".thumb").bounding_box(), first.locator("td a").bounding_box()
    assert picture["x"] + picture["width"] < text["x"]
    assert first.bounding_box()["height"] <= 40


@pytest.mark.parametrize("address", ["/runs", ROLLOUTS])
def test_phone_shows_the_list_at_once_and_filters_on_demand_or_in_use(browser, url, address):
    page = opened(browser, f"{url}{address}", **PHONE)
    assert page.locator("tbody tr").first.bounding_box()["y"] < PHONE["height"] * 0.75
    page.get_by_text("Filter and sort").click()
    expect(page.get_by_label("Sort by")).to_be_visible()
    used = opened(browser, f"{url}{address}?{'search=won' if address == '/runs' else 'text=star'}", **PHONE)
    expect(used.get_by_label("Sort by")).to_be_visible()
    wide = opened(browser, f"{url}{address}")
    expect(wide.get_by_label("Sort by")).to_be_visible()
    expect(wide.get_by_text("Filter and sort")).to_be_hidden()


def test_cost_of_models_without_a_price_is_not_known(browser, url):
    page = opened(browser, f"{url}/runs/won-1")
    expect(page.locator(".tile").filter(has_text="Cost")).to_contain_text("no price is known")
    expect(page.locator(".tile").filter(has_text="Cost")).not_to_contain_text("$")
    costs = opened(browser, f"{url}/runs/won-1?tab=costs")
    expect(costs.locator(".tile").filter(has_text="Dollars").locator(".tile-value")).to_have_text("–")  # noqa: RUF001
    expect(opened(browser, f"{url}/runs/plain-1").locator(".tile").filter(has_text="Cost")).to_contain_text("$2.50")
