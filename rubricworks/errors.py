"""The one exception that users see: what was wrong, where, and what to do about it."""


class UserError(ValueError):
    """Bad input or a missing service. The command line prints the message as one line and exits with code 2."""


class TransientError(UserError):
    """A service that does not answer now, or a machine at fault: another attempt, on another machine, may go better."""


class StoppedAtBudget(UserError):
    """A run came to its cap. Nothing is wrong: it goes on when the cap is raised."""

    def __init__(self, message: str, more: str) -> None:
        super().__init__(message)
        self.more = more
        """Option to resume with: `--set budget.tokens=…`."""
