"""One line for a model folder that Transformers cannot load."""

from collections.abc import Iterator
from contextlib import contextmanager

from safetensors import SafetensorError

from rubricworks.errors import UserError


@contextmanager
def load_errors(what: str) -> Iterator[None]:
    """Turn the errors of libraries that load a model into a UserError.

    Args:
        what: the model, such as "the model PATH".
    Raises:
        UserError: a file is missing, damaged or of another kind.
    """
    try:
        yield
    except (OSError, ValueError, ImportError, RuntimeError, SafetensorError) as error:
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise UserError(f"cannot load {what}: {reason}") from error
