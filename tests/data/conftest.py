"""Servers of images, which stop with the test."""

import datetime
import ssl
from collections.abc import Iterator

import pytest
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
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "images.test")])
    today = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(today - datetime.timedelta(days=1))
        .not_valid_after(today + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("images.test")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, bare = serialization.Encoding.PEM, serialization.NoEncryption()
    (tmp_path / "cert.pem").write_bytes(certificate.public_bytes(pem))
    (tmp_path / "key.pem").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, bare))
    for_server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for_server.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    return for_server, ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
