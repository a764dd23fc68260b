"""Messages of docs/troubleshooting.md are those of the code."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
OF_OTHERS = {"exceeded quota", "out of memory"}
"""Messages of Kubernetes and of torch."""
MESSAGES = [
    text
    for cell in re.findall(r"^\| ([^|]*`[^|]*) \|", PAGE, flags=re.MULTILINE)
    for text in re.findall(r"`([^`]+)`", cell)
    if text != "dead_letters"
]


@pytest.fixture(scope="module")
def source():
    files = [file for folder in ("rubricworks", "platform_api", "pipelines") for file in (ROOT / folder).rglob("*.py")]
    # A text over several lines is one message.
    return re.sub(r'["\']\s*\n\s*f?["\']', "", "\n".join(file.read_text(encoding="utf-8") for file in files))


@pytest.mark.parametrize("message", MESSAGES)
def test_message_is_in_the_code(source, message):
    parts = [part for part in re.split(r"…|NAME|'NAME'", message) if part.strip()]
    assert message in OF_OTHERS or all(part.strip() in source for part in parts), message
