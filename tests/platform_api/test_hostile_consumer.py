"""A consumer that says what it serves with too much, or with what is no answer, is one that does not say."""

import asyncio
import gzip
import threading
import tracemalloc
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from test_dns_rebinding import messages

from rubricworks.platform_api.db.tables import Promotion
from rubricworks.platform_api.services.promotion.consumer import ConsumerAddress
from rubricworks.platform_api.services.promotion.drift import Reconciler

BLANK = b" " * (1 << 20)
SERVING = b'{"serving": {"captioner": 4}}'


class Registry:
    """Promotions whose alias is as the last one left it."""

    async def champion(self, model):
        return 1


@contextmanager
def consumer(parts, encoding=None):
    """A consumer that answers a GET with these parts; its URL, and the number of those that it could send."""
    sent = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            if encoding:
                self.send_header("Content-Encoding", encoding)
            self.end_headers()
            with suppress(OSError):
                for part in parts:
                    self.wfile.write(part)
                    sent.append(len(part))

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", sent
    server.shutdown()
    server.server_close()


async def look(path, url):
    """Texts of the drift that one look finds, of a promotion that was confirmed."""
    database = await messages(path, 1)
    async with database.session() as session:
        (await session.get_one(Promotion, 1)).state = "confirmed"
    address = ConsumerAddress(url)
    async with address.client() as http:
        result = await Reconciler(database, Registry(), address).look(http)
    await database.close()
    return [item.text for item in result]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parts", "encoding"),
    [
        ([b"["] + [BLANK] * 256, None),
        ([gzip.compress(BLANK * 256, 1)], "gzip"),
        ([b"[" * 200_000], None),
        ([b'{"serving": [4]}'], None),
        ([b"\xff"], None),
        ([b'{"serving": {"captioner": ' + b"4" * 5_000 + b"}}"], None),
    ],
    ids=["256 MB", "256 MB packed", "deep", "a list", "no text", "a long number"],
)
def test_an_answer_that_cannot_be_read_is_no_drift_and_costs_little(tmp_path, parts, encoding):
    with consumer(parts, encoding) as (url, sent):
        tracemalloc.start()
        try:
            result = asyncio.run(look(tmp_path, url))
            largest = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert result == []
    assert largest < 40 << 20
    assert sum(sent) < 40 << 20


def test_what_a_consumer_serves_is_read(tmp_path):
    with consumer([SERVING]) as (url, _):
        assert asyncio.run(look(tmp_path, url)) == ["the consumer says that it serves version 4, not 1"]


def test_a_version_that_is_no_number_is_told_in_a_few_signs(tmp_path):
    with consumer([b'{"serving": {"captioner": "\\ud800 token=abc ' + b"x" * 100_000 + b'"}}']) as (url, _):
        told = asyncio.run(look(tmp_path, url))
    assert told == [f"the consumer says that it serves version ? token=*** {'x' * 21}…{'x' * 16}, not 1"]
