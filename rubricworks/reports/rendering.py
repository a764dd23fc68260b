"""Templates filled in: foreign text is escaped, a name that a template misses is an error, numbers have one form."""

from pathlib import Path
from typing import Any

from rubricworks.reports.formats import FILTERS

_TEMPLATES = Path(__file__).parent


def render(template: str, *, styles: tuple[str, ...] = ("report.css",), **values: Any) -> str:
    """A page with its style sheets inside it.

    Args:
        styles: files beside the template, in order.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS)
    css = "".join((_TEMPLATES / name).read_text(encoding="utf-8") for name in styles)
    return environment.get_template(template).render(css=css, **values)
