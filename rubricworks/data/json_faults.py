"""Faults of a line of JSON in words."""


def json_fault(error: Exception) -> str:
    """Fault of a line that `json.loads` refused with this error, and what to do.

    If the bytes have another encoding, the error comes from the text decoder and says nothing about JSON.
    """
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 (byte 0x{error.object[error.start]:02x}, number {error.start + 1}); save the file as UTF-8"
    return f"not JSON ({error}); write one object a line"
