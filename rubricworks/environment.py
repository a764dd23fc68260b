"""`${NAME}` in recipes: filled from the environment on use, so that no recipe or table holds an address or a secret.

Also which addresses are this machine's own.
"""

import ipaddress
import os
import re

from rubricworks.errors import UserError

_VARIABLE = re.compile(r"\$\{(\w+)\}")


def fill(text: str, purpose: str) -> str:
    """`text` with its variables filled in.

    Args:
        purpose: what the text is, for the message: "data.source".
    """
    return _VARIABLE.sub(lambda match: variable(match[1], purpose), text)


def variable(name: str, purpose: str) -> str:
    """The value of an environment variable.

    Raises:
        UserError: it is not set, or empty.
    """
    value = os.environ.get(name, "").strip()
    if not value:
        raise UserError(
            f"the environment variable {name} is not set; it holds {purpose}: export {name}=… and run again"
        )
    return value


def names_in(text: str) -> list[str]:
    """The variables that a text refers to."""
    return _VARIABLE.findall(text)


def is_loopback(address: object) -> bool:
    """Return True if `address` is a loopback address."""
    try:
        parsed = ipaddress.ip_address(str(address))
    except ValueError:
        return False
    return (getattr(parsed, "ipv4_mapped", None) or parsed).is_loopback
