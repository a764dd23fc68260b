"""Rendering of templates: foreign text is escaped, an undefined name is an error, numbers share one set of filters."""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rubricworks.reports.formats import FILTERS

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"


def render(
    template: str,
    *,
    folder: Path = TEMPLATES,
    styles: Sequence[str | Path] = ("report.css",),
    scripts: Sequence[str | Path] = (),
    **values: Any,
) -> str:
    """A page with its style sheets and scripts inlined.

    Args:
        folder: the folder of the template and its includes; the shared templates serve for files missing there.
        styles: names or paths of files, in order.
        scripts: names or paths of files, in order; the page's security policy allows these alone, by their digest.
    """
    css, script = (_concatenate(folder, names) for names in (styles, scripts))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return _environment(folder).get_template(template).render(css=css, script=script, script_digest=digest, **values)


def render_part(template: str, *, folder: Path = TEMPLATES, **values: Any) -> "Markup":
    """Part of a page as safe markup."""
    from markupsafe import Markup

    return Markup(render(template, folder=folder, styles=(), **values))


@cache
def _environment(folder: Path) -> "Environment":
    """Environment that compiles each template of a folder once."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([folder, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS)
    return environment


def _concatenate(folder: Path, names: Sequence[str | Path]) -> str:
    paths = [folder / name if (folder / name).is_file() else TEMPLATES / name for name in names]
    return "".join(path.read_text(encoding="utf-8") for path in paths)
