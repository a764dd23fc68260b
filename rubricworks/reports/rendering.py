"""Templates filled in: foreign text is escaped, a name that a template misses is an error, numbers have one form."""

import base64
import hashlib
from pathlib import Path
from typing import Any

from rubricworks.reports.formats import FILTERS

_SHARED = Path(__file__).parent / "templates"


def render(
    template: str,
    *,
    folder: Path = _SHARED,
    styles: tuple[str, ...] = ("report.css",),
    scripts: tuple[str, ...] = (),
    **values: Any,
) -> str:
    """A page with its style sheets and scripts inside it.

    Args:
        folder: of the template and what it includes; what is not there is one of those that all pages share.
        styles: files, in order.
        scripts: the same; the page's security policy lets them run by their digest, and no other.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([folder, _SHARED]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS)
    css, script = (_joined(folder, names) for names in (styles, scripts))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template(template).render(css=css, script=script, script_digest=digest, **values)


def _joined(folder: Path, names: tuple[str, ...]) -> str:
    places = [folder / name if (folder / name).is_file() else _SHARED / name for name in names]
    return "".join(place.read_text(encoding="utf-8") for place in places)
