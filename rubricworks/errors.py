"""The one exception that users see: what was wrong, where, and what to do about it."""


class UserError(ValueError):
    """Bad input or a missing service. The command line prints the message as one line and exits with code 2."""
