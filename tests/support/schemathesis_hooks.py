"""What a caller knows and a schema does not say: a key is new for each request, a cursor is one that a list gave.

Schemathesis loads this file by the name in its configuration.
"""

import re
import uuid
from typing import Any

import schemathesis

_KEY = re.compile(r"[!-~]{8,200}")


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Send a valid key as a new one, and a list without a cursor that only the list could refuse."""
    if _KEY.fullmatch(str(case.headers.get("Idempotency-Key", ""))):
        case.headers["Idempotency-Key"] = uuid.uuid4().hex
    if isinstance(cursor := case.query.get("cursor"), str) and len(cursor) <= 500:
        del case.query["cursor"]
