"""Fields of HTML forms."""

from urllib.parse import parse_qs

from fastapi import Request

from rubricworks.platform_api.problems import BadRequest

_LONGEST = 10_000
KEY_FIELD = "idempotency_key"
"""Field of a form's idempotency key."""


async def form_fields(request: Request) -> dict[str, str]:
    """Fields of an urlencoded form, trimmed; the first value of each.

    Raises:
        BadRequest: it has thousands of fields.
    """
    try:
        sent = parse_qs((await request.body()).decode(errors="replace"), max_num_fields=2_000)
    except ValueError as error:
        raise BadRequest("the form has too many fields") from error
    return {name: values[0].strip()[:_LONGEST] for name, values in sent.items()}
