"""Site pages for files outside docs/ that a page links to (a hook of MkDocs, named in mkdocs.yml).

In the repository a link such as `../recipes/quickstart.yaml` leads to the file. On the site it leads to a page below
`repository/`: Markdown as it is, anything else as a listing. A folder has no page, so a link to one becomes its text. A
link to what is not there stays, and fails the build.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
_LINK = re.compile(r"\[(?P<text>[^\[\]]*)\]\((?!\w+:|#)(?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
_LANGUAGES = {".html": "html", ".json": "json", ".py": "python", ".sh": "bash", ".toml": "toml", ".yaml": "yaml"}


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add a page for every file outside docs/ that a page, or a page so added, links to."""
    unread = [DOCS / page.src_uri for page in files.documentation_pages()]
    while unread:
        for target in _linked_files(unread.pop()):
            if files.get_file_from_path(_uri(target)) is None:
                files.append(File.generated(config, _uri(target), content=_content(target)))
                unread += [target] if target.suffix == ".md" else []
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links to files outside docs/ to the pages of these files."""
    place = Path(page.file.src_uri)
    source = ROOT / place.relative_to("repository") if place.parts[0] == "repository" else DOCS / place

    def site_link(link: re.Match[str]) -> str:
        target = _target(source, link["path"])
        if target is None:
            return link[0]
        if target.is_dir():
            return link["text"]
        return f"[{link['text']}]({os.path.relpath(_uri(target), place.parent)}{link['anchor'] or ''})"

    return _LINK.sub(site_link, markdown) if source.is_file() else markdown


def _linked_files(page: Path) -> Iterator[Path]:
    targets = (_target(page, link["path"]) for link in _LINK.finditer(page.read_text(encoding="utf-8")))
    return (target for target in targets if target and target.is_file() and not target.is_relative_to(DOCS))


def _target(page: Path, link: str) -> Path | None:
    """File or folder of the repository that a link leads to; None if it is not there."""
    target = (page.parent / link).resolve()
    return target if target.is_relative_to(ROOT) and target.exists() else None


def _uri(file: Path) -> str:
    """Path of a file's page among the pages of the site."""
    if file.is_relative_to(DOCS):
        return file.relative_to(DOCS).as_posix()
    return f"repository/{file.relative_to(ROOT).as_posix()}" + ("" if file.suffix == ".md" else ".md")


def _content(file: Path) -> str:
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".md":
        return text
    fence = f'``````{_LANGUAGES.get(file.suffix, "text")} title="{file.relative_to(ROOT).as_posix()}"'
    return f"---\nsearch: {{exclude: true}}\n---\n# {file.name}\n\n{fence}\n{text}\n``````\n"
