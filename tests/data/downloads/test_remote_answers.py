"""Answers of image servers: too large, too short, too slow, failed, or no image."""

import asyncio
import gzip
import time
from io import BytesIO

import pytest
from image_server import ImageServer, Page, drip, fetch, fetcher, picture, reason_of
from PIL import Image

from rubricworks.data.downloads.fetcher import Fetcher
from rubricworks.data.source_entries import RejectedEntry
from rubricworks.data.source_kinds.urls import url_entry
from rubricworks.data.sources import SourceItem, open_images

pytestmark = pytest.mark.usefixtures("quick_retries")


def test_content_above_the_limit_is_not_read_to_its_end_with_or_without_a_length(server):
    chunks = []

    def endless():
        for _ in range(10_000):
            chunks.append(1)
            yield bytes(10_000)

    server.pages["/honest"] = Page(b"", headers={"Content-Length": "3000001"})
    server.pages["/endless"] = lambda _: Page(endless(), headers={"Content-Length": None})
    server.pages["/fits"] = Page(bytes(3_000_000))
    assert reason_of(server, "/honest", max_bytes=3_000_000) == "larger than 3 MB"
    assert reason_of(server, "/endless", max_bytes=3_000_000) == "larger than 3 MB"
    assert len(chunks) < 5_000
    asker = fetcher(f"images.test:{server.port}", max_bytes=3_000_000)
    assert fetch(asker, f"http://images.test:{server.port}/fits") == [bytes(3_000_000)]


def test_of_a_body_longer_than_its_length_no_more_is_taken(server):
    server.pages["/a.png"] = Page([picture() + bytes(5_000_000)], headers={"Content-Length": str(len(picture()))})
    asker = fetcher(f"images.test:{server.port}", max_bytes=1_000)
    # What follows may be read as the beginning of a next answer, which it is not.
    (result,) = fetch(asker, f"http://images.test:{server.port}/a.png")
    assert result in (picture(), "the answer is not HTTP")


def test_body_that_breaks_off_is_asked_for_again_and_then_given_up(server):
    server.pages["/a.png"] = Page(picture()[:20], headers={"Content-Length": "900"})
    assert reason_of(server) == "the answer broke off"
    assert server.times("/a.png") == 3


def test_packed_body_is_not_unpacked(server):
    server.pages["/a.png"] = Page(gzip.compress(bytes(10**7)), headers={"Content-Encoding": "gzip"})
    assert reason_of(server) == "packed with gzip, which was not asked for"


def test_server_that_drips_or_falls_silent_is_left(server):
    server.pages["/drips"] = lambda _: Page(drip(bytes(1_000), 0.02), headers={"Content-Length": "1000"})
    server.pages["/stalls"] = lambda _: Page(drip(bytes(3), 1.0), headers={"Content-Length": "3"})
    assert reason_of(server, "/drips", timeout_s=0.3) == "took longer than 0.3 s"
    assert reason_of(server, "/stalls", read_timeout_s=0.2) == "the server was silent for 0.2 s"


def test_missing_is_asked_for_once_and_a_failing_server_again(server):
    server.pages["/b.png"] = lambda before: Page(picture()) if before else Page(status=500)
    server.pages["/down"] = Page(status=503)
    assert reason_of(server, "/none") == "HTTP 404"
    assert reason_of(server, "/down") == "HTTP 503"
    url = f"http://images.test:{server.port}/b.png"
    assert fetch(fetcher(f"images.test:{server.port}"), url) == [picture()]
    assert (server.times("/none"), server.times("/down"), server.times("/b.png")) == (1, 3, 2)


def test_nobody_there_and_no_such_name_are_reasons(server):
    closed_server = ImageServer()
    closed_server.close()
    asker = fetcher(f"images.test:{closed_server.port}", "nowhere.test")
    refused, unknown = fetch(asker, f"http://images.test:{closed_server.port}/a.png", "http://nowhere.test/a.png")
    assert refused.startswith("cannot connect: ")
    assert unknown == "the host name does not resolve"


def bomb(side: int) -> bytes:
    buffer = BytesIO()
    Image.new("1", (side, side)).save(buffer, "PNG")
    return buffer.getvalue()


class Counting(Fetcher):
    """Notes how many images are being fetched at the same time, at most."""

    now = most = 0

    async def fetch(self, url: str) -> bytes:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            return await super().fetch(url)
        finally:
            self.now -= 1


@pytest.mark.slow
def test_images_come_in_order_some_at_a_time_and_what_is_none_says_so(server):
    def slow(shade: int):
        def page(_: int) -> Page:
            time.sleep(0.02 * (shade % 3))
            return Page(picture(shade))

        return page

    for shade in range(20):
        server.pages[f"/{shade}.png"] = slow(shade)
    server.pages |= {"/text": Page(b"<html>"), "/bomb": Page(bomb(20_000)), "/small-bomb": Page(bomb(10_000))}
    paths = [f"/{shade}.png" for shade in range(20)] + ["/text", "/bomb", "/small-bomb"]
    results = [url_entry(f"http://images.test:{server.port}{path}", "", ("caption",)) for path in paths]

    counting = fetcher(f"images.test:{server.port}", kind=Counting, concurrency=4)

    async def open_all() -> list[SourceItem | RejectedEntry]:
        async with counting:
            return await open_images([*results, RejectedEntry(source="list.txt:9", reason="not a URL")], counting)

    *items, text, large, medium, rejected = asyncio.run(open_all())
    assert [item.key for item in items] == [result.key for result in results[:20]]
    assert [item.image for item in items] == [picture(shade) for shade in range(20)]
    assert {item.references for item in items} == {("caption",)}
    # The server may still count an answer as its own that was already read, so the bound is ours.
    assert server.busiest > 1
    assert counting.most == 4
    assert text.reason.startswith("not an image")
    assert "too large" in large.reason
    assert medium.reason.startswith("too large: Image size (100000000 pixels)")
    assert rejected.reason == "not a URL"
