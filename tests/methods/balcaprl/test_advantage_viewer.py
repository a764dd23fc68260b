"""The advantage viewer in a real browser: its arithmetic against rubricworks.rl, and what people do with it."""

import random
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
import synthetic_balcaprl_run as balcaprl
import torch
from browser import chromium
from playwright.sync_api import Browser, Page
from report_page import write_balcaprl_report

from rubricworks.rl import decoupled_advantages, group_advantages

pytestmark = pytest.mark.slow
WEIGHTS = list(balcaprl.WEIGHTS)
CORNER = "document.querySelector('canvas').getContext('2d').getImageData(0, 59, 1, 1).data[0]"
NOTHING = {"count": 0, "mean": 0, "squares": 0, "telling": False}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    run = tmp_path_factory.mktemp("runs") / "viewed"
    balcaprl.write_whole_run(run)
    write_balcaprl_report(run)
    return (run / "report.html").as_uri()


@pytest.fixture(scope="module")
def browser(report: str) -> Iterator[Browser]:
    """Started once the page is there: Playwright keeps an event loop running, and tables are written with another."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def page(browser: Browser, report: str) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.goto(report)
    yield page
    context.close()
    assert problems == []


def random_rewards(draw: random.Random, rollouts: int) -> list[list[float] | None]:
    """A group as judges leave it: shares with small denominators, some rewards constant, some rollouts not judged."""
    constant = draw.choice([None, None, 0, 1, 2])
    rows: list[list[float] | None] = []
    for _ in range(rollouts):
        row = [draw.randrange(8) / 7, draw.random(), draw.choice([0.0, draw.random()])]
        if constant is not None:
            row[constant] = 0.7
        rows.append(None if draw.random() < 0.15 else row)
    return rows


def tensor_of(rows: list[list[float] | None]) -> torch.Tensor:
    return torch.tensor([row or [torch.nan] * 3 for row in rows], dtype=torch.float64)


def test_advantages_of_one_group_are_those_of_rubricworks_rl(page: Page) -> None:
    draw = random.Random(1)
    cases = [random_rewards(draw, draw.randint(2, 8)) for _ in range(200)]
    cases += [[[0.3, 0.5, 0.7]] * 4, [None] * 3, [[0.1, 0.2, 0.3], None, None], [[0.1, 0.3, 0.5], [0.4, 0.2, 0.5]]]
    for weights in (WEIGHTS, [0.3, 0.3, 0.3], [0.0, 1.0, 0.0]):
        result = page.evaluate(
            "([cases, weights, rest]) => cases.map((rewards) => [summedAdvantages(rewards, weights), "
            "decoupledAdvantages(rewards, weights, rest)])",
            [cases, weights, NOTHING],
        )
        for rows, (grpo, decoupled) in zip(cases, result, strict=True):
            rewards_NK, weights_K = tensor_of(rows), torch.tensor(weights, dtype=torch.float64)
            assert decoupled == pytest.approx(decoupled_advantages(rewards_NK, weights_K, len(rows)).tolist(), abs=1e-9)
            assert grpo == pytest.approx(group_advantages(rewards_NK @ weights_K, len(rows)).tolist(), abs=1e-9)


def test_swept_advantages_are_those_of_the_whole_batch_with_two_rewards_changed(page: Page) -> None:
    """The page's figures of the other groups suffice: the numbers equal those with their rollouts."""
    data = page.evaluate("JSON.parse(document.getElementById('viewer-data').textContent)")
    rows = balcaprl.random_grades()
    assert data["groups"]
    for number, group in enumerate(data["groups"]):
        sample_id = page.locator(f"#group-{number} summary").inner_text().split(", ")[1].split(" (")[0]
        step = int(sample_id.split("-")[1])
        batch = [row for row in rows if row["step"] == step]
        first = next(place for place, row in enumerate(batch) if row["sample_id"] == sample_id)
        rollout = number % balcaprl.GROUP
        for pair in ([0, 1], [1, 2], [0, 2]):
            swept = page.evaluate(
                "([group, weights, rollout, pair]) => sweptAdvantages(group, weights, rollout, pair, 4)",
                [group, WEIGHTS, rollout, pair],
            )
            for place in range(25):
                rewards_NK = balcaprl.paid_rewards(batch)
                rewards_NK[first + rollout, pair[0]] = (place % 5) / 4
                rewards_NK[first + rollout, pair[1]] = (place // 5) / 4
                weights_K = torch.tensor(WEIGHTS, dtype=torch.float64)
                decoupled = decoupled_advantages(rewards_NK, weights_K, balcaprl.GROUP)[first + rollout]
                grpo = group_advantages(rewards_NK @ weights_K, balcaprl.GROUP)[first + rollout]
                assert swept["decoupled"][place] == pytest.approx(float(decoupled), abs=1e-9)
                assert swept["grpo"][place] == pytest.approx(float(grpo), abs=1e-9)


def test_iso_line_runs_where_the_value_is_the_level(page: Page) -> None:
    """x + 2y = 1.2 in a square of 100 whose y points up."""
    path = page.evaluate(
        "(() => { const values = []; for (let y = 0; y <= 20; y++) for (let x = 0; x <= 20; x++) "
        "values.push(x / 20 + 2 * y / 20); return isoLine(values, 20, 1.2 + 1e-9); })()"
    )
    points = [(float(x) / 100, 1 - float(y) / 100) for x, y in re.findall(r"(-?[\d.]+) (-?[\d.]+)", path)]
    assert len(points) >= 40
    assert all(x + 2 * y == pytest.approx(1.2, abs=1e-3) for x, y in points)
    assert (min(x for x, _ in points), max(x for x, _ in points)) == pytest.approx((0, 1), abs=1e-3)


def values(page: Page) -> list[str]:
    return page.locator(".map-value").all_inner_texts()


def table_row(page: Page, group: int, rollout: int) -> list[str]:
    return page.locator(f"#group-{group} tbody tr").nth(rollout).locator("td").all_inner_texts()


def test_every_rollout_starts_at_its_real_place_with_the_advantages_of_the_table(page: Page) -> None:
    for group in range(page.locator("#viewer-group option").count()):
        page.select_option("#viewer-group", str(group))
        for rollout in range(balcaprl.GROUP):
            page.select_option("#viewer-rollout", str(rollout))
            row = table_row(page, group, rollout)
            assert values(page) == [value.strip() for value in row[4:6]]
            assert row[5] == row[6]  # what training used
    assert page.locator("details.group:visible").count() == 1


def test_pointer_on_either_map_moves_the_reading_of_both(page: Page) -> None:
    page.locator(".map .square").first.scroll_into_view_if_needed()
    texts = set()
    for number in (0, 1):
        box = page.locator(".map .square").nth(number).bounding_box()
        assert box
        page.mouse.move(box["x"] + 0.25 * box["width"], box["y"] + 0.25 * box["height"])
        texts.add(page.locator("#viewer-says").inner_text())
    assert len(texts) == 1
    assert "with precision 0.25 and recall 0.75: GRPO" in texts.pop()
    assert page.locator("#viewer-x").input_value() == "0.25"


def test_keyboard_and_sliders_move_and_home_goes_back(page: Page) -> None:
    real = values(page)
    page.locator(".map .square").nth(1).focus()
    page.locator("#viewer-x").fill("0.5")
    page.locator("#viewer-y").fill("0.3")
    page.locator(".map .square").nth(1).focus()
    for key in ("ArrowRight", "Shift+ArrowUp", "ArrowUp", "ArrowLeft", "ArrowLeft"):
        page.keyboard.press(key)
    assert "with precision 0.49 and recall 0.41:" in page.locator("#viewer-says").inner_text()
    for _ in range(8):
        page.keyboard.press("Shift+ArrowUp")
    assert "recall 1.00:" in page.locator("#viewer-says").inner_text()
    page.keyboard.press("Home")
    assert values(page) == real
    page.locator("#viewer-x").fill("0.01")
    assert values(page) != real
    page.click("#viewer-back")
    assert values(page) == real


def test_changing_the_pair_names_the_axes_and_the_reward_that_stays(page: Page) -> None:
    page.select_option("#viewer-pair", "1,2")
    assert page.locator(".map-across").all_inner_texts() == ["recall →"] * 2
    assert page.locator(".map-up").all_inner_texts() == ["↑ linguistic"] * 2
    assert re.search(r"Its precision stays 0\.\d\d\.", page.locator("#viewer-says").inner_text())


def pixels(page: Page, number: int) -> list[int]:
    script = "n => [...document.querySelectorAll('.map canvas')[n].getContext('2d').getImageData(0, 0, 60, 60).data]"
    return page.evaluate(script, number)


def test_maps_are_painted_by_the_advantage_and_again_in_the_dark(page: Page) -> None:
    """Teal where the advantage is high (top right), and nowhere one colour."""
    for number in (0, 1):
        light = pixels(page, number)
        top_right, bottom_left = light[4 * 59 : 4 * 59 + 3], light[4 * 59 * 60 : 4 * 59 * 60 + 3]
        assert top_right[0] < top_right[2]
        assert top_right != bottom_left
        assert page.locator(".map svg").nth(number).locator("path.iso").count() >= 3
    before = pixels(page, 1)
    page.emulate_media(color_scheme="dark")
    deadline = time.monotonic() + 300  # The page forbids the `eval` by which Playwright waits.
    while page.evaluate(CORNER) >= 128:
        assert time.monotonic() < deadline, "the maps were not painted again"
        page.wait_for_timeout(50)
    assert pixels(page, 1) != before


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_phone_sees_the_whole_page_without_scrolling_sideways(browser: Browser, report: str, scheme: Any) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 800}, has_touch=True, color_scheme=scheme)
    page = context.new_page()
    page.goto(report)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    frame = page.locator(".map .square").first
    frame.scroll_into_view_if_needed()
    box = frame.bounding_box()
    assert box
    page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert page.locator("#viewer-x").input_value() == "0.5"
    context.close()


def test_without_javascript_the_tables_stay_and_say_so(browser: Browser, report: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report)
    assert page.locator("noscript p").is_visible()
    assert not page.locator("#viewer").is_visible()
    assert page.locator("#group-0 table").is_visible()
    assert page.locator("details.group").count() >= 3
    context.close()


def test_nothing_but_the_viewer_may_run(browser: Browser, report: str) -> None:
    page = browser.new_page()
    page.goto(report)
    refused = page.evaluate(
        """new Promise((done) => {
            document.addEventListener("securitypolicyviolation", (event) => done(event.effectiveDirective));
            const other = document.createElement("script");
            other.textContent = "window.intruder = true";
            document.body.append(other);
            setTimeout(() => done("it ran"), 3000);
        })"""
    )
    assert refused == "script-src-elem"
    assert page.evaluate("window.intruder === undefined")
    page.close()
