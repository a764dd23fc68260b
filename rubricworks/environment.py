"""`${NAME}` in recipes: filled from the environment on use, so that no recipe or table holds an address or a secret.

Also which addresses are this machine's own, and which variables Kubernetes sets for Services.
"""

import ipaddress
import os
import re
from collections.abc import MutableMapping

from rubricworks.errors import UserError

_VARIABLE = re.compile(r"\$\{(\w+)\}")
_SERVICE_HOST = "_SERVICE_HOST"
_LINK = re.compile(r"(tcp|udp|sctp)://")


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


def drop_service_links(variables: MutableMapping[str, str] = os.environ) -> None:
    """Remove the addresses of Services, such as VLLM_PORT=tcp://10.0.0.7:8000 of one named `vllm`.

    Programs take these variables for settings of theirs. Our own pods have none (`enableServiceLinks: false`), but
    tasks of Kubeflow and nodes of a TrainJob cannot ask for that. KUBERNETES_… stay, by which a pod finds its cluster.
    """
    services = [name.removesuffix(_SERVICE_HOST) for name in variables if name.endswith(_SERVICE_HOST)]
    for service in services:
        of_service = [name for name in variables if name.startswith(f"{service}_PORT")]
        for name in of_service if service != "KUBERNETES" else ():
            if _LINK.match(variables[name]):
                del variables[name]


def is_loopback(address: object) -> bool:
    """Return True if `address` is a loopback address."""
    try:
        parsed = ipaddress.ip_address(str(address))
    except ValueError:
        return False
    return (getattr(parsed, "ipv4_mapped", None) or parsed).is_loopback
