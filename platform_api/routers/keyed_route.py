"""Routes whose POSTs take an idempotency key: sent again, they change nothing again and get the same answer.

Such a route writes in a session of its own, which ends before its answer is stored; that of `SessionOf` ends later.
"""

import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from rubricworks.platform_api.services.access.idempotency import Keyed, request_digest

HEADER = "idempotency-key"


class KeyedRoute(APIRoute):
    """A route that answers a repeated POST by what it answered before."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, behind the key."""
        handle = super().get_route_handler()

        async def handle_once(request: Request) -> Response:
            key, principal = request.headers.get(HEADER), request.state.principal
            if request.method != "POST" or not key or len(key) > 200 or principal is None:
                return await handle(request)
            database = request.app.state.database
            digest = request_digest(request.method, request.url.path, await request.body())
            keyed = Keyed(principal, key, digest)
            if (known := await keyed.claim(database)) is not None:
                return JSONResponse(known["body"], status_code=known["status"], headers={"Idempotent-Replay": "true"})
            try:
                answer = await handle(request)
            except BaseException:
                await keyed.release(database)
                raise
            async with database.session() as session:
                await keyed.answer(session, answer.status_code, json.loads(bytes(answer.body)))
            return answer

        return handle_once
