"""Servers of images, which stop with the test."""

import ssl
from collections.abc import Iterator

import pytest
from certificates import tls_contexts
from image_server import ImageServer, Page, picture


@pytest.fixture
def server() -> Iterator[ImageServer]:
    """Has one image, /a.png."""
    server = ImageServer()
    server.pages["/a.png"] = Page(picture())
    yield server
    server.close()


@pytest.fixture
def certificates(tmp_path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Certificate of a server on images.test, and the trust of a client that knows it."""
    return tls_contexts(tmp_path, "images.test")
