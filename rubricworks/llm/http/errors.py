"""Descriptions of connection errors without the hosts and headers that aiohttp's own texts contain."""


def describe_error(error: Exception) -> str:
    import aiohttp
    from aiohttp.http import HttpProcessingError

    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
        return "the TLS certificate or handshake was not accepted"
    if isinstance(error, aiohttp.ClientResponseError | HttpProcessingError):
        return "the answer is not HTTP"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "the host name does not resolve"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect: {error.os_error.strerror or 'no reason given'}"
    if isinstance(error, aiohttp.ServerDisconnectedError | ConnectionResetError):
        return "the server closed the connection"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the answer broke off"
    return f"the connection failed ({type(error).__name__})"
