"""What surrounds an answer without being part of it: dollar signs, boxes, fonts, spacing, unusual characters."""

import re

from rubricworks.verifiers.characters import plain_characters

_COMMANDS = {
    "\\left": "", "\\right": "", "\\big": "", "\\Big": "", "\\bigg": "", "\\Bigg": "", "\\bigl": "", "\\bigr": "",
    "\\Bigl": "", "\\Bigr": "", "\\displaystyle": "", "\\textstyle": "", "\\,": "", "\\;": " ", "\\:": " ", "\\!": "",
    "\\ ": " ", "~": " ", "\\quad": " ", "\\qquad": " ", "\\dfrac": "\\frac", "\\tfrac": "\\frac", "\\cfrac": "\\frac",
    "\\dbinom": "\\binom", "\\tbinom": "\\binom", "\\lvert": "|", "\\rvert": "|", "\\vert": "|", "\\%": "%", "\\$": "$",
    "\\le": "\\leq", "\\leqslant": "\\leq", "\\lt": "<", "\\ge": "\\geq", "\\geqslant": "\\geq", "\\gt": ">",
    "\\ne": "\\neq", "\\varnothing": "\\emptyset", "\\lbrace": "\\{", "\\rbrace": "\\}",
    "\\lbrack": "[", "\\rbrack": "]",
    "\\degree": "^\\circ", "\\ldots": "...", "\\dots": "...", "\\limits": "",
}  # fmt: skip
_COMMAND = re.compile(r"\\\\|\\[A-Za-z]+|\\[,;:! %$]|~")
_DOUBLED = re.compile(r"\\\\(?=[A-Za-z])")
_LETTER_FONT = re.compile(
    r"\\(?:mathrm|mathit|mathbf|mathsf|text|textit|textbf|textrm|boldsymbol|rm)\s*\{\s*([A-Za-z])\s*\}"
)
_OPERATOR_NAME = re.compile(r"\\operatorname\*?\s*\{\s*([a-z]+)\s*\}")
_BRACED_COMMA = re.compile(r"\{\s*,\s*\}\s*")
_PLAIN_NAMES = re.compile(r"(?<![\\A-Za-z{])(sqrt|pi|infinity|infty|theta|alpha|beta|gamma|lambda|omega)(?![A-Za-z])")
_WRAPPERS = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"), ("**", "**"), ("`", "`"))


def unwrapped(text: str) -> tuple[str, bool]:
    """The answer itself, and whether it stood in math: $...$, \\(...\\), \\[...\\] or \\boxed{...} around all of it.

    >>> unwrapped("$$\\\\boxed{\\\\dfrac{1}{2}}.$$")
    ('\\\\frac{1}{2}', True)
    """
    text = plain_characters(text).strip()
    in_math = False
    while (inside := _inside(text)) is not None:
        in_math = in_math or text[0] in "$\\"
        text = inside.strip()
    if "\\\\" in text and "\\begin" not in text:  # escaped once too often; no rows of a matrix
        text = _DOUBLED.sub(r"\\", text)
    if "\\" in text or "~" in text:
        text = _BRACED_COMMA.sub(",", _COMMAND.sub(lambda command: _COMMANDS.get(command[0], command[0]), text))
        text = _OPERATOR_NAME.sub(r"\\\1 ", _LETTER_FONT.sub(r" \1", text))
    elif "{,}" in text:
        text = text.replace("{,}", ",")
    if "**" in text:
        text = text.replace("**", "^")
    return _PLAIN_NAMES.sub(_with_backslash, text).strip(), in_math


def _with_backslash(name: re.Match[str]) -> str:
    return "\\infty " if name[0] == "infinity" else f"\\{name[0]} "


def _inside(text: str) -> str | None:
    """What the outermost wrapper holds; None without one."""
    if not text:
        return None
    if text[-1] in ".,;" and len(text) > 1 and not text.endswith(("\\,", "\\;", "...")):
        return text[:-1]
    if text[0] not in "$\\*`":
        return None
    for opening, closing in _WRAPPERS:
        if text.startswith(opening) and text.endswith(closing) and len(text) >= len(opening) + len(closing) + 1:
            inside = text[len(opening) : -len(closing)]
            if not inside.endswith("\\") and not (opening[0] in "$*`" and opening[0] in inside.replace("\\$", "")):
                return inside if opening not in inside else None
    for command in ("\\boxed", "\\fbox"):
        if text.startswith(command) and text.endswith("}"):
            rest = text[len(command) :].lstrip()
            if rest.startswith("{") and _closes_last(rest):
                return rest[1:-1]
    return None


def _closes_last(text: str) -> bool:
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return place == len(text) - 1
    return False
