"""Messages of promotions: only signed and fresh ones are read, each is applied once, an old one changes nothing."""

import json
import socket
import threading

import pytest

from rubricworks.errors import UserError
from rubricworks.tracking.promotion_messages import (
    SIGNATURE,
    Consumer,
    PromotionMessage,
    consumer_server,
    read_message,
    sign,
)

BODY = json.dumps(
    {"promotion": 7, "kind": "promotion", "model": "captioner", "version": 4, "digest": "3f", "before": 3}
)


class Api:
    def __init__(self):
        self.posts = []

    def post(self, path, body):
        self.posts.append(path)


def test_a_signature_is_that_of_openssl():
    # printf '1732320000.{}' | openssl dgst -sha256 -hmac k3y
    digest = "3f570769b85bd16eda06a0675723c00ae9000f7e26d5035ba9ce5e878b55a5a9"
    assert sign("k3y", "{}", 1732320000) == f"t=1732320000,v1={digest}"
    assert read_message("k3y", BODY, sign("k3y", BODY, 1000), now=1200) == PromotionMessage(
        7, "promotion", "captioner", 4, "3f"
    )


@pytest.mark.parametrize(
    ("secret", "body", "signature", "now"),
    [
        ("other", BODY, sign("k3y", BODY, 1000), 1000),
        ("k3y", BODY + " ", sign("k3y", BODY, 1000), 1000),
        ("k3y", BODY, sign("k3y", BODY, 1000).replace("t=1000", "t=1001"), 1000),
        ("k3y", BODY, sign("k3y", BODY, 1000), 1301),
        ("k3y", BODY, sign("k3y", BODY, 1000), 699),
        ("k3y", BODY, "", 1000),
        ("k3y", BODY, "t=²,v1=ÿ", 1000),
        ("k3y", "[]", sign("k3y", "[]", 1000), 1000),
        ("k3y", "{}", sign("k3y", "{}", 1000), 1000),
        ("k3y", BODY, f"t={'9' * 5000},v1=x", 1000),
        *(
            ("k3y", body, sign("k3y", body, 1000), 1000)
            for body in (
                *("[" * 30_000, BODY.replace("7", '"7"'), BODY.replace("7", "NaN"), BODY.replace("4", "true")),
                *(BODY.replace('"captioner"', "[]"), BODY.replace('"3f"', "null")),
            )
        ),
    ],
)
def test_another_signature_another_time_and_another_body_are_refused(secret, body, signature, now):
    with pytest.raises(UserError):
        read_message(secret, body, signature, now=now)


def test_a_message_is_applied_once_confirmed_each_time_and_not_after_a_later_one(tmp_path):
    api, applied = Api(), []
    first, later = (PromotionMessage(number, "promotion", "captioner", number, "") for number in (7, 8))
    consumer = Consumer(api, applied.append, tmp_path / "serving.json")
    for message in (first, first, later, first):
        consumer.receive(message)
    assert applied == [first, later]
    assert api.posts == ["promotions/7/confirm", "promotions/7/confirm", "promotions/8/confirm"]
    assert Consumer(api, applied.append, tmp_path / "serving.json").serving() == {"captioner": 8}


@pytest.fixture
def port(tmp_path):
    """The port of a consumer that waits a twentieth of a second for a sender."""
    consumer = Consumer(Api(), lambda _: None, tmp_path / "serving.json")
    server = consumer_server(0, "k3y", consumer, silence=0.05)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("headers", "answer"),
    [
        (f"Content-Length: 2\r\n{SIGNATURE}: t={'9' * 5000},v1=x\r\n\r\n{{}}", b"HTTP/1.0 403"),
        (f"Content-Length: {'9' * 5000}\r\n\r\n", b"HTTP/1.0 413"),
        ("Content-Length: 2\r\n\r\n{", b""),
        ("Content-Length: 2\r\n", b""),
    ],
    ids=["a long time", "a long length", "half a body", "half a head"],
)
def test_a_sender_without_the_secret_gets_no_traceback_and_holds_no_thread(port, headers, answer):
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(f"POST / HTTP/1.1\r\nHost: x\r\n{headers}".encode())
        assert connection.recv(1000)[:12] == answer


def test_what_could_not_be_applied_is_not_served_nor_confirmed(tmp_path):
    def fail(message):
        raise UserError("it does not fit")

    api = Api()
    consumer = Consumer(api, fail, tmp_path / "serving.json")
    with pytest.raises(UserError):
        consumer.receive(PromotionMessage(7, "promotion", "captioner", 4, ""))
    assert (api.posts, consumer.serving()) == ([], {})
