"""Drawing of pages from templates, for their caller; problems are pages too."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode
from uuid import uuid4

from fastapi import Request
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

import rubricworks.reports
from rubricworks import __version__
from rubricworks.platform_api.routers.keyed_route import KEY_FIELD
from rubricworks.platform_api.services.access.principals import Principal
from rubricworks.reports.formats import FILTERS


def moment(at: datetime, *, seconds: bool = False, kind: str = "moment") -> Markup:
    """A time in UTC, which the page's script turns into the reader's own."""
    text = f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
    shown = text if seconds else text.rpartition(":")[0]
    return Markup('<time class="{}" datetime="{}Z">{} UTC</time>').format(kind, text.replace(" ", "T"), shown)


_REPORTS = Path(rubricworks.reports.__file__).parent / "templates"
_TEMPLATES = Path(__file__).parents[2] / "pages"
_environment = Environment(
    loader=FileSystemLoader([_TEMPLATES, _REPORTS]),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.filters.update(FILTERS)
_environment.filters["path"] = lambda text: quote(str(text), safe="")
_environment.filters["moment"] = moment
_environment.filters["ago"] = partial(moment, kind="ago")


def _once() -> Markup:
    """The field by which a form that is sent twice has one effect: a new idempotency key."""
    return Markup('<input type="hidden" name="{}" value="{}">').format(KEY_FIELD, uuid4().hex)


_environment.globals["once"] = _once


def address(request: Request, **changes: object) -> str:
    """Address of a request's page with other values of its query, from its first row on; None leaves a value out."""
    query = request.query_params.multi_items()
    same = [(name, value) for name, value in query if value and name not in (*changes, "cursor")]
    text = urlencode([*same, *((name, str(value)) for name, value in changes.items() if value is not None)])
    return f"?{text}" if text else request.url.path


def problem_page(request: Request, status: int, title: str, detail: str, headers: Any) -> Response:
    """A problem as a page with the way back."""
    answer = draw_page(
        request, getattr(request.state, "principal", None), "problem.html", status=status, problem=title, detail=detail
    )
    answer.headers.update(headers or {})
    return answer


def draw_page(
    request: Request,
    caller: Principal | None,
    template: str,
    *,
    status: int = 200,
    file_names: Mapping[str, str] | None = None,
    **values: Any,
) -> HTMLResponse:
    """A page, drawn for its caller.

    Args:
        file_names: sample_id → name of its picture's file, by which the page calls it (`services.samples.file_names`).
    """
    state = request.app.state
    is_behind = state.storage is not None and (state.run_index is None or state.run_index.is_behind)
    shared: Mapping[str, Any] = {
        "caller": caller,
        "project_name": state.settings.project.name if state.settings.project else "",
        "here": request.url.path,
        "version": __version__,
        "is_behind": caller is not None and is_behind,
        "file_names": file_names or {},
    }
    html = _environment.get_template(template).render(**shared, **values)
    return HTMLResponse(html, status_code=status, headers={"Cache-Control": "no-store"})
