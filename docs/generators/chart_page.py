"""Reference page of the Helm chart: its values.yaml, a section for each key."""

from collections.abc import Iterator
from pathlib import Path

_VALUES = Path(__file__).resolve().parents[2] / "charts" / "rubricworks" / "values.yaml"
_INTRO = """# Chart values

Values of `charts/rubricworks` with their defaults. Set `storage.uri`, `mlflow.uri` and, in production, the images'
digests; everything else has a default. The chart refuses a value that is not listed here.

- Install: [the chart](../kubernetes.md). A complete file for a team: `charts/rubricworks/team.yaml`.
- Secrets are named here and created by you. No value is secret.
"""


def chart_page() -> str:
    """The page as Markdown."""
    parts = [_INTRO]
    for key, comment, lines in _sections(_VALUES.read_text(encoding="utf-8").splitlines()):
        parts += [f"## `{key}`", "", *([comment, ""] if comment else []), "```yaml", *lines, "```", ""]
    return "\n".join(parts).rstrip() + "\n"


def _sections(lines: list[str]) -> Iterator[tuple[str, str, list[str]]]:
    """Top-level keys of a YAML file, each with the comment above it and its lines."""
    comments: list[str] = []
    key, comment, body = "", "", []
    for line in lines:
        if line.startswith("#"):
            comments.append(line.removeprefix("#").strip())
        elif line and not line.startswith(" "):
            if key:
                yield key, comment, body
            key, comment, body, comments = line.partition(":")[0], " ".join(comments), [line], []
        elif line:
            body.append(line)
        else:
            comments = []
    yield key, comment, body
