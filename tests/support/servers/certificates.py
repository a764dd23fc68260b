"""A certificate of a server on loopback, and the trust of a client that knows it."""

import datetime
import ssl
from pathlib import Path

import pytest


def tls_contexts(folder: Path, host: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Contexts of a server by this name and of its client; the certificate's files are left in the folder."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    today = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(today - datetime.timedelta(days=1))
        .not_valid_after(today + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, bare = serialization.Encoding.PEM, serialization.NoEncryption()
    (folder / "cert.pem").write_bytes(certificate.public_bytes(pem))
    (folder / "key.pem").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, bare))
    for_server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for_server.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return for_server, ssl.create_default_context(cafile=str(folder / "cert.pem"))
