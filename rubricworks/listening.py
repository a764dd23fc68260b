"""Listening sockets: one address, or every address of this machine by IPv4 and IPv6 alike.

A cluster may have IPv6 alone, where nobody reaches `0.0.0.0`; a machine may have IPv4 alone, where `::` does not exist.
Python's servers listen on one of the two: asyncio makes `::` an address for IPv6 only.
"""

import socket

EVERY_ADDRESS = "::"
"""Host that stands for every address, by IPv4 too."""


def listen(host: str, port: int) -> socket.socket:
    """Open a socket whose connections send small packets at once: port 0 takes any that is free.

    Without that an answer's body waits for the caller to acknowledge its head, which takes 40 ms; asyncio asks for it
    only where a socket names its protocol, which those of `socket.create_server` do not.

    Raises:
        OSError: the host is no address of this machine, or the port is taken.
    """
    listening = _open(host, port)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # an accepted connection inherits it
    return listening


def every_address() -> str:
    """Return the host by which a program that opens its own socket listens on every address of this machine."""
    return EVERY_ADDRESS if socket.has_dualstack_ipv6() else "0.0.0.0"


def url_of(listening: socket.socket) -> str:
    """URL of a listening socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _open(host: str, port: int) -> socket.socket:
    if host == EVERY_ADDRESS:
        is_dual = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if is_dual else socket.AF_INET
        return socket.create_server(("", port), family=family, backlog=1024, dualstack_ipv6=is_dual)
    problem: OSError | None = None
    # A name may stand for an address of a protocol that this machine lacks.
    for family, *_, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE):
        try:
            return socket.create_server(address[:2], family=family, backlog=1024)
        except OSError as error:
            problem = problem or error
    raise problem or OSError(f"{host} has no address")
