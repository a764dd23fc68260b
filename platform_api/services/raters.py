"""Names of the people whose judgements a file brings: nobody speaks in another person's name."""

from rubricworks.platform_api.services.access.principals import Principal, Right

_LENGTH = 100


def imported_rater(by: Principal, name: str) -> str:
    """Name under which a caller stores another person's judgements: an admin that name, anybody else one that tells.

    So a file of others adds to what they gave themselves, and never replaces it.
    """
    suffix = f" (imported by {by.name})"
    if name == by.name or by.may(Right.ADMINISTER) or name.endswith(suffix):
        return name[:_LENGTH]
    return f"{name[: max(0, _LENGTH - len(suffix))]}{suffix}"[:_LENGTH]
