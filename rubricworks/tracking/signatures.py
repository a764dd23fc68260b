"""Signatures of models, in the format of OpenSSF Model Signing, which its own command line verifies too.

    model_signing verify key model --signature model.sig --public_key signing.pub

RUBRICWORKS_SIGNING_KEY is a PEM with an elliptic-curve key, or the path of one. A private key signs each version that
is registered; either kind verifies each model that is fetched. A signature has the SHA-256 of every file of the model.
It does not say which version is the champion: whoever may write aliases can go back to any signed version.
"""

import logging
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rubricworks.errors import UserError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

KEY_VARIABLE = "RUBRICWORKS_SIGNING_KEY"
SIGNATURE_FILE = "model.sig"
"""Name of a signature, beside the model's folder."""


def sign(path: Path, signature: Path) -> None:
    """Sign a folder or a file with this environment's key; without a key do nothing.

    Raises:
        UserError: the key is none that signs, or the folder has a symbolic link.
    """
    if (key := _key()) is None:
        return
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from model_signing import signing

    if not isinstance(key, EllipticCurvePrivateKey):
        raise UserError(
            f"{KEY_VARIABLE} is a public key, which verifies only; set the private key where models are made"
        )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with _key_file(pem) as private_key:
        try:
            signing.Config().use_elliptic_key_signer(private_key=private_key).sign(path, signature)
        except ValueError as error:
            raise UserError(f"{path}: cannot be signed: {error}") from error


def verify(path: Path, signature: Path, description: str) -> None:
    """Check that a folder or a file is what this environment's key signed; without a key do nothing.

    Args:
        description: noun phrase for the error message.
    Raises:
        UserError: the signature is absent, damaged, made with another key, or of other files.
    """
    if (key := _key()) is None:
        return
    if not signature.is_file():
        raise UserError(
            f"{description} has no signature, and {KEY_VARIABLE} is set: register it again where the private key is "
            "set, or unset the key to take models that nobody signed"
        )
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
    from model_signing import verifying

    public = key.public_key() if isinstance(key, EllipticCurvePrivateKey) else key
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    with _key_file(pem) as public_key:
        verifier = verifying.Config().use_elliptic_key_verifier(public_key=public_key)
        try:
            verifier.verify(path, signature)
        except Exception as error:  # the library raises whatever a damaged signature meets in its parsers
            _log.debug("verification of %s", path, exc_info=True)
            reason = (
                " ".join(re.sub(r"[\\\[\]]", "", str(error)).split()).partition(": Expected ")[0]
                or "the signature is not of this key"
            )
            raise UserError(
                f"{description} is not what the key of {KEY_VARIABLE} signed ({reason[:200]}); do not use it: fetch "
                "another version, or register it again"
            ) from error


def _key() -> "EllipticCurvePrivateKey | EllipticCurvePublicKey | None":
    """This environment's key; None without one."""
    value = os.environ.get(KEY_VARIABLE, "").strip()
    if not value:
        return None
    try:
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
        from model_signing import signing  # noqa: F401  # the key is of no use without it
    except ImportError as error:
        raise UserError(f"{KEY_VARIABLE} is set; signatures need: pip install 'rubricworks[signing]'") from error
    try:
        pem = value.encode() if value.startswith("-----BEGIN") else Path(value).read_bytes()
        key = load_pem_private_key(pem, None) if b"PRIVATE KEY" in pem else load_pem_public_key(pem)
    except OSError as error:
        raise UserError(f"{KEY_VARIABLE}: {value}: {error.strerror}; name a PEM file, or give its content") from error
    except (ValueError, TypeError) as error:
        raise UserError(f"{KEY_VARIABLE} is no PEM of a key without a password; {_MAKE_ONE}") from error
    if not isinstance(key, EllipticCurvePrivateKey | EllipticCurvePublicKey) or key.curve.name not in _CURVES:
        raise UserError(f"{KEY_VARIABLE} is no elliptic-curve key of P-256, P-384 or P-521; {_MAKE_ONE}")
    return key


@contextmanager
def _key_file(pem: bytes) -> Iterator[str]:
    """Path of a file that only this user can read, as the library takes keys."""
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        file.write(pem)
        file.flush()
        yield file.name


_CURVES = ("secp256r1", "secp384r1", "secp521r1")
_MAKE_ONE = "make one: openssl ecparam -name prime256v1 -genkey -noout -out signing.pem"
_log = logging.getLogger(__name__)
