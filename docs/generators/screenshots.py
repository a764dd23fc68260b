"""Take the screenshots of the pages: `python docs/generators/screenshots.py RUNS` (`make screenshots RUNS=runs`).

RUNS is a folder of finished runs, such as those of `make demo` with several seeds. The newest runs are shown.
"""

import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

SCREENSHOTS = Path(__file__).resolve().parents[1] / "screenshots"
_CHROMIUM = "/usr/bin/chromium"


def main(runs: str) -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "rubricworks.cli", "server", "--runs", runs, "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        address = server.stdout.readline().strip().split()[-1].rstrip("/")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1280, "height": 760})
            take_all(page, address)
            browser.close()
    finally:
        server.terminate()
        server.wait()


def take_all(page: Page, address: str) -> None:
    page.goto(f"{address}/runs")
    page.locator("tbody tr").nth(1).wait_for()  # the index has listed at least two runs
    take(page, "runs")
    names = [link.inner_text() for link in page.locator("tbody tr td a").all() if link.inner_text().strip()]
    page.goto(f"{address}/compare-runs?" + "&".join(f"run={name}" for name in names[:3]))
    page.locator(".chart").first.wait_for()
    take(page, "compare-runs")
    page.goto(f"{address}/runs/{names[0]}")
    take(page, "run")
    page.goto(f"{address}/runs/{names[0]}/criteria/train_policy")
    take(page, "criteria")
    page.goto(f"{address}/runs/{names[0]}/responses/train_policy?text=circle")
    page.locator("tbody tr").first.wait_for()
    take(page, "rollouts")
    page.goto(f"{address}/runs/{names[0]}/rollouts/train_policy")
    page.locator("main a[href*='/rollouts/train_policy/']").first.click()
    page.locator("h1").wait_for()
    take(page, "group")


def take(page: Page, name: str) -> None:
    page.evaluate("document.fonts.ready")
    page.screenshot(path=SCREENSHOTS / f"{name}.png")


if __name__ == "__main__":
    main(sys.argv[1])
