"""The consumer's name leads to a good address when it is asked first, and into this machine or its cloud afterwards."""

import asyncio
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address, ip_network

import pytest
from image_server import Names
from sqlalchemy import select

from rubricworks.data.downloads.hosts import FetchRefused
from rubricworks.platform_api.db.engine import Database
from rubricworks.platform_api.db.migrate import migrate
from rubricworks.platform_api.db.tables import Delivery, Promotion, utc_now
from rubricworks.platform_api.services.promotion.consumer import ConsumerAddress, Webhooks, admits

GOOD = "127.0.0.2"
"""Stands for the consumer's own, public address."""


@contextmanager
def listener(address, port=0):
    """A server that counts its requests, with its port and that count."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            asked.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"serving": {"captioner": 4}}')

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer((address, port), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield server.server_address[1], asked
    server.shutdown()
    server.server_close()


async def messages(path, count):
    """A database with messages that are due."""
    database = Database(f"sqlite:///{path}/x.db")
    await migrate(database)
    async with database.session() as session:
        for version in range(1, count + 1):
            promotion = Promotion(
                model="captioner", version=version, kind="promotion", gate="", reason="", state="applied",
                requested_by="a", decided_by="b", decided_at=utc_now(),
            )  # fmt: skip
            session.add(promotion)
            await session.flush()
            session.add(Delivery(promotion_id=promotion.id, body=json.dumps({"version": version})))
    return database


@pytest.mark.parametrize(("inside", "kind"), [("127.0.0.1", "loopback"), ("169.254.169.254", "link-local")])
def test_message_goes_to_the_checked_address_and_never_to_where_the_name_leads_next(tmp_path, inside, kind):
    with listener(GOOD) as (port, received), listener("127.0.0.1", port) as (_, stolen):
        consumer = ConsumerAddress(f"http://consumer.test:{port}/hook", (ip_network(GOOD),))
        resolver = Names({"consumer.test": [[GOOD], [inside]]})

        async def work():
            database = await messages(tmp_path, 2)
            webhooks = Webhooks(database, consumer, "k3y")
            for due in (1, 2):
                async with database.session() as session:
                    other = await session.get_one(Delivery, 3 - due)
                    other.due_at = None
                    (await session.get_one(Delivery, due)).due_at = utc_now()
                async with consumer.client(resolver) as http:
                    await webhooks.send_due(http)
            async with database.session() as session:
                rows = (await session.scalars(select(Delivery).order_by(Delivery.id))).all()
            await database.close()
            return [(row.error, row.delivered_at is not None) for row in rows]

        sent, refused = asyncio.run(work())
    assert sent == ("", True)
    assert refused == (f"address {inside} is {kind}; see RUBRICWORKS_WEBHOOK_NETWORKS", False)
    assert resolver.asked == ["consumer.test"] * 2, "once for each connection"
    assert [json.loads(body) for body in received] == [{"version": 1}]
    assert stolen == []


@pytest.mark.parametrize("answers", [["169.254.169.254"], [GOOD, "127.0.0.1"], ["127.0.0.1", GOOD]])
def test_consumer_is_not_asked_for_what_it_serves_at_an_address_of_the_inside(answers):
    with listener(GOOD) as (port, asked), listener("127.0.0.1", port) as (_, stolen):
        consumer = ConsumerAddress(f"http://consumer.test:{port}/", (ip_network(GOOD),))

        async def ask():
            async with consumer.client(Names({"consumer.test": answers})) as http, http.get(consumer.url) as answer:
                return answer.status

        with pytest.raises(FetchRefused, match=r"is (link-local|loopback)"):
            asyncio.run(ask())
        assert (asked, stolen) == ([], [])


@pytest.mark.parametrize("host", ["a..b", "a" * 64])
def test_a_message_to_a_name_that_dns_cannot_have_is_tried_again_later(tmp_path, host):
    async def send():
        database, consumer = await messages(tmp_path, 2), ConsumerAddress(f"http://{host}/")
        async with consumer.client() as http:
            received = await Webhooks(database, consumer, "k3y").send_due(http)
        async with database.session() as session:
            notes = [(row.attempts, row.error) for row in await session.scalars(select(Delivery))]
        await database.close()
        return received, notes

    assert asyncio.run(send()) == (0, [(1, "UnicodeError")] * 2)


def test_messages_are_sent_on_after_a_failure_that_nobody_foresaw(tmp_path, monkeypatch):
    async def follow():
        looks = asyncio.Queue()

        async def send_due(*_):
            looks.put_nowait(1)
            raise RuntimeError("unforeseen")

        monkeypatch.setattr(Webhooks, "send_due", send_due)
        following = asyncio.create_task(Webhooks(None, ConsumerAddress("http://localhost/"), "k3y").follow(0.0))
        for _ in range(2):
            await asyncio.wait_for(looks.get(), 300)
        following.cancel()

    asyncio.run(follow())


@pytest.mark.parametrize(
    ("host", "networks", "address", "admitted"),
    [
        ("consumer.example", [], "93.184.216.34", True),
        ("consumer.example", [], "10.1.2.3", False),
        ("consumer.example", ["10.1.0.0/16"], "10.1.2.3", True),
        ("consumer.example", ["10.1.0.0/16"], "10.2.0.1", False),
        ("consumer.example", ["127.0.0.0/8"], "127.0.0.1", True),
        ("localhost", [], "127.0.0.1", True),
        ("localhost", [], "::1", True),
        ("localhost", [], "10.1.2.3", False),
        ("10.1.2.3", [], "10.1.2.3", True),
        ("10.1.2.3", [], "10.1.2.4", False),
        ("[fd00::5]", [], "fd00::5", True),
        ("169.254.169.254", ["0.0.0.0/0"], "169.254.169.254", False),
        ("consumer.example", ["::/0"], "::ffff:169.254.169.254", False),
        ("consumer.example", ["0.0.0.0/0"], "168.63.129.16", False),
        ("consumer.example", ["0.0.0.0/0"], "0.0.0.0", False),
        ("consumer.example", ["100.64.0.0/10"], "100.100.100.100", True),
        ("consumer.example", ["100.64.0.0/10"], "100.100.100.200", False),
        ("192.0.0.192", [], "192.0.0.192", False),
        ("consumer.example", ["fc00::/7"], "fd00:ec2::254", False),
        ("consumer.example", ["fc00::/7"], "fd20:ce::254", False),
    ],
)
def test_addresses_that_a_consumer_may_have(host, networks, address, admitted):
    consumer = ConsumerAddress(f"http://{host}:8090/hook", tuple(map(ip_network, networks)))
    assert admits(consumer, ip_address(address)) is admitted
