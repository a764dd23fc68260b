"""The error of a call that brought no usable answer."""

from rubricworks.rubrics import ErrorClass


class ChatError(Exception):
    """A call failed for good, after its retries and repair turns."""

    def __init__(
        self, error_class: ErrorClass, message: str, raw: str = "", attempts: int = 1, request: str = ""
    ) -> None:
        super().__init__(f"{error_class.value}: {message}")
        self.error_class = error_class
        self.message = message
        self.raw = raw
        """What the model or server said last, for a dead-letter row."""
        self.attempts = attempts
        """Requests that were sent, repair turns included."""
        self.request = request
        """Digest of the question, in hexadecimal: the cache key that its answer would have had."""
