"""Errors over HTTP: RFC 9457 problem details, with the problem of each field beside the field.

A route raises `Problem`; what the library raises as `UserError` is the caller's 422; anything else is a 500 without
its text, which goes to the log.
"""

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from sqlalchemy.exc import DatabaseError, DataError
from sqlalchemy.exc import TimeoutError as NoConnection
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from rubricworks.errors import TransientError, UserError
from rubricworks.platform_api.db.faults import describe_fault, fault_of
from rubricworks.redaction import redact
from rubricworks.runs.tables import UnreadableTable
from rubricworks.storage.confined_files import UnreadableFile
from rubricworks.tracking.connection import MlflowAway, MlflowRefused

MEDIA_TYPE = "application/problem+json"
_log = logging.getLogger(__name__)


class Problem(Exception):
    """An error that is reported to the caller."""

    def __init__(self, status: int, title: str, detail: str, **more: Any) -> None:
        super().__init__(detail)
        self.status, self.title, self.detail, self.more = status, title, detail, more


class NotFound(Problem):
    """The thing that a path names is not there."""

    def __init__(self, detail: str) -> None:
        super().__init__(404, "Not found", detail)


class Conflict(Problem):
    """The state of a thing does not allow the change."""

    def __init__(self, detail: str) -> None:
        super().__init__(409, "Conflict", detail)


class BadRequest(Problem):
    """A parameter that cannot be read."""

    def __init__(self, detail: str) -> None:
        super().__init__(422, "Invalid request", detail)


def problem_response(status: int, title: str, detail: str, *, headers: Any = None, **more: Any) -> JSONResponse:
    """A response in the form of RFC 9457."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": redact(detail), **more}
    return JSONResponse(body, status_code=status, media_type=MEDIA_TYPE, headers=headers)


def add_problem_handlers(app: FastAPI) -> None:
    """Give every error of the application this form."""
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(UserError, _user_error)
    app.add_exception_handler(UnreadableFile, _unreadable_file)
    app.add_exception_handler(UnreadableTable, _table_replaced)
    app.add_exception_handler(MlflowAway, _registry_away)
    app.add_exception_handler(MlflowRefused, _registry_refused)
    app.add_exception_handler(TransientError, _service_away)
    app.add_exception_handler(DatabaseError, database_fault)
    app.add_exception_handler(NoConnection, database_fault)
    app.add_exception_handler(DataError, _unstorable)
    app.add_exception_handler(ClientDisconnect, _caller_gone)
    app.add_exception_handler(Exception, _unexpected)


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return problem_answer(request, error.status, error.title, error.detail, **error.more)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = f"there is no {request.url.path}" if error.status_code == 404 else str(error.detail)
    headers = {"Allow": ", ".join(_methods(request))} if error.status_code == 405 else error.headers
    return problem_answer(request, error.status_code, str(error.detail), detail, headers=headers)


def _methods(request: Request) -> list[str]:
    """Methods of all routes with the request's path; the router only names the first route's."""
    routes = [route for router in request.app.state.routers for route in router.routes]
    methods = {method for route in routes if route.path_regex.match(request.url.path) for method in route.methods}
    return sorted(methods | {"HEAD"} if "GET" in methods else methods)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    problems: dict[str, str] = {}
    for mistake in error.errors():
        # A choice among words that may also be empty is named as a type, once for the words and once for the empty one.
        field = ".".join(part for part in map(str, mistake["loc"]) if not part.startswith("literal["))
        problems.setdefault(field, mistake["msg"])
    fields = [{"field": field, "problem": problem} for field, problem in problems.items()]
    listed = "; ".join(f"{field}: {problem}" for field, problem in problems.items())
    return problem_answer(request, 422, "Invalid request", listed, fields=fields)


async def _user_error(request: Request, error: Exception) -> Response:
    return problem_answer(request, 422, "Invalid request", str(error))


async def _unreadable_file(request: Request, error: Exception) -> Response:
    _log.warning("%s", error)
    return problem_answer(request, 422, "Unreadable file", str(error))


async def _table_replaced(request: Request, error: Exception) -> Response:
    _log.warning("%s", error)
    return problem_answer(request, 404, "Not found", f"{error}; if its run replaces it, ask again in a moment")


async def _registry_away(request: Request, error: Exception) -> Response:
    detail = f"the registry does not answer: {error}"
    return problem_answer(request, 503, "Registry unavailable", detail, headers={"Retry-After": "5"})


async def _registry_refused(request: Request, error: Exception) -> Response:
    """The service's own access to the registry is at fault, not the caller."""
    _log.error("%s", redact(str(error)))
    return problem_answer(request, 502, "Registry refused", f"the registry refuses this service: {error}")


async def _service_away(request: Request, error: Exception) -> Response:
    _log.warning("%s", redact(str(error)))
    detail = "a service behind this one, such as the storage of runs, does not answer; /readyz says which"
    return problem_answer(request, 503, "Service unavailable", detail, headers={"Retry-After": "5"})


async def database_fault(request: Request, error: Exception) -> Response:
    """The answer while the database is away, full, damaged or in another's hands; the log has its own words."""
    if (fault := fault_of(error)) is None:
        raise error
    _log.warning("%s %s: %s", request.method, request.url.path, describe_fault(error))
    again = "; /readyz says why, ask again in a moment" if fault.retry_seconds else "; /readyz and the log say more"
    headers = {"Retry-After": str(fault.retry_seconds)} if fault.retry_seconds else None
    return problem_answer(request, 503, "Database unavailable", fault.problem + again, headers=headers)


async def _unstorable(request: Request, error: Exception) -> Response:
    """A value that SQLite takes and Postgres does not: a NUL character, a text longer than its column."""
    assert isinstance(error, DataError)
    reason = str(error.orig).splitlines()[0]
    return problem_answer(request, 422, "Invalid request", f"a value cannot be stored or looked for: {redact(reason)}")


async def _caller_gone(request: Request, error: Exception) -> Response:
    """The answer to a request whose body ended early; nobody gets it."""
    return problem_answer(request, 400, "Incomplete request", "the connection ended before the body did")


async def _unexpected(request: Request, error: Exception) -> Response:
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem_answer(request, 500, "Internal error", "the service's log has the reason")


def problem_answer(
    request: Request, status: int, title: str, detail: str, *, headers: Any = None, **more: Any
) -> Response:
    """A page for people in a browser, a body for programs."""
    draw = getattr(request.app.state, "problem_page", None)
    is_page = not request.url.path.startswith("/api/") and "text/html" in request.headers.get("accept", "")
    if draw is None or not is_page:
        return problem_response(status, title, detail, headers=headers, **more)
    page: Response = draw(request, status, title, redact(detail), headers)
    return page
