"""The surface of an answer, which is no part of it: dollar signs, boxes, fonts, spacing, unusual characters."""
# ruff: noqa: RUF001 - look-alikes are what the first table is about

import re
from functools import lru_cache
from typing import NamedTuple

_LATEX = r"""
× \times  · \cdot  ⋅ \cdot  ∙ \cdot  √ \sqrt  ∛ \sqrt[3]  π \pi  ∞ \infty  ≤ \leq  ≥ \geq  ≠ \neq  ≈ \approx
± \pm  ∓ \mp  ° ^\circ  ∪ \cup  ∩ \cap  ∈ \in  ∅ \emptyset  ℝ \mathbb{R}  ∑ \sum  ∫ \int  ∂ \partial  → \to
∠ \angle  △ \triangle  ½ \frac{1}{2}  ⅓ \frac{1}{3}  ⅔ \frac{2}{3}  ¼ \frac{1}{4}  ¾ \frac{3}{4}  µ \mu
α \alpha  β \beta  γ \gamma  δ \delta  ε \epsilon  ζ \zeta  η \eta  θ \theta  ι \iota  κ \kappa  λ \lambda  μ \mu
ν \nu  ξ \xi  ρ \rho  σ \sigma  τ \tau  υ \upsilon  φ \phi  χ \chi  ψ \psi  ω \omega  Γ \Gamma  Δ \Delta
Θ \Theta  Λ \Lambda  Ξ \Xi  Σ \Sigma  Φ \Phi  Ψ \Psi  Ω \Omega
"""
_ASCII = "− - – - — - ÷ / ∕ / ⁄ / ′ ' ″ '' ’ ' ‘ ' “ \" ” \" 、 , 。 . … ... ⟨ ( ⟩ )"
_FULL_WIDTH = {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
_SPACES = dict.fromkeys("\u00a0\u2009\u202f\u3000", " ") | dict.fromkeys("\u200b\ufeff", "")


def _pairs(table: str) -> dict[str, str]:
    words = table.split()
    return dict(zip(words[::2], words[1::2], strict=True))


_TABLE = str.maketrans(
    {sign: f"{latex} " for sign, latex in _pairs(_LATEX).items()} | _pairs(_ASCII) | _FULL_WIDTH | _SPACES
)
_CHINESE = {"或": " or ", "且": " and ", "和": " and "}
_RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n", strict=True))
_LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))
_FORM_FEED = re.compile(r"\\?\f(?=rac)")
"""A `\\frac` whose backslash was read as an escape."""
_ROOT_SIGN = re.compile(r"√\s?(\d+(?:\.\d+)?)")
_RAISED_RUN, _LOWERED_RUN = (re.compile(f"[{''.join(table)}]+") for table in (_RAISED, _LOWERED))
_COMMANDS = {
    "\\left": "", "\\right": "", "\\big": "", "\\Big": "", "\\bigg": "", "\\Bigg": "", "\\bigl": "", "\\bigr": "",
    "\\Bigl": "", "\\Bigr": "", "\\displaystyle": "", "\\textstyle": "", "\\,": " ", "\\;": " ", "\\:": " ", "\\!": "",
    "\\ ": " ", "~": " ", "\\quad": " ", "\\qquad": " ", "\\dfrac": "\\frac", "\\tfrac": "\\frac", "\\cfrac": "\\frac",
    "\\dbinom": "\\binom", "\\tbinom": "\\binom", "\\lvert": "|", "\\rvert": "|", "\\vert": "|", "\\%": "%", "\\$": "$",
    "\\le": "\\leq", "\\leqslant": "\\leq", "\\lt": "<", "\\ge": "\\geq", "\\geqslant": "\\geq", "\\gt": ">",
    "\\ne": "\\neq", "\\varnothing": "\\emptyset", "\\lbrace": "\\{", "\\rbrace": "\\}",
    "\\lbrack": "[", "\\rbrack": "]", "\\langle": "(", "\\rangle": ")", "\\therefore": "", "\\colon": ":",
    "\\vee": "\\lor", "\\wedge": "\\land", "\\R": "\\mathbb{R}",
    "\\degree": "^\\circ", "\\ldots": "...", "\\dots": "...", "\\cdots": "...", "\\limits": "",
}  # fmt: skip
_COMMAND = re.compile(r"\\\\|\\q?quad|\\[A-Za-z]+|\\[,;:! %$]|~")
_DOUBLED_BACKSLASH = re.compile(r"\\\\(?=[A-Za-z])")
_LETTER_FONT = re.compile(
    r"\\(?:mathrm|mathit|mathbf|mathsf|text|textit|textbf|textrm|boldsymbol|rm)\s*\{\s*([A-Za-z])\s*\}"
)
_TEXT_COMMAND = (
    r"\\(?:text(?:rm|bf|it|normal|sf|up|color\s*\{\w+\})?|math(?:rm|bf|it|sf|normal)|mbox|hbox|operatorname)\s*"
)
_TEXT = re.compile(rf"(?<![_^{{]){_TEXT_COMMAND}\{{([^{{}}\\]*)\}}(\s*\^\s*\{{?\s*[23]\s*\}}?)?")
_FONT = re.compile(
    r"\\(?:mathrm|mathbf|textcolor\s*\{\w+\}|color\s*\{\w+\}|boldsymbol|bm)\s*\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}"
)
"""Fonts and colours around mathematics."""
_VECTORS = re.compile(r"\\(?:vec|mathbf|boldsymbol|bm)(?![A-Za-z])")
_CROSS = re.compile(r"\\times(?![A-Za-z]|\s*\d)")
_COLOUR = re.compile(r"\\color\s*\{\w+\}\s*")
_QUOTED = re.compile(r"``([^`']*)''")
_LEAD = re.compile(
    r"\\therefore\s*|(?:(?:所以|因此|故|综上|则|解得)\s*,?\s*)?(?:(?:最终|正确)?的?(?:答案|结果|选项|解)\s*(?:是|为|等于|:|选)+|选项?\s*:?(?=\s*[A-J\d(\\$])"
    r"|(?:(?!大概|[不非可能约近似至多少超假设如若除排舍错误未无以认于几原猜估许像怕疑限界曾])[\u4e00-\u9fff]){0,8}?(?:为|是|等于|共|共有|共花了)(?=\s*[\d(\\$-]))\s*"
    r"|\\displaystyle(?![A-Za-z])\s*|\\[,;:]\s*"
)
"""Words before an answer without a meaning of their own."""
_PLAIN_COMPLEMENT = re.compile(r"(?:(?<![A-Za-z\\{])R|\\mathbb\{R\})\s*\\\s+(?=\{)")
_PLAIN_IN = re.compile(r"^(\s*[A-Za-z])\s+in\s+(?=[\[({]|\\mathbb|\\\{)")
_CHOOSE = re.compile(r"\{\s*(\w+)\s*\\choose\s*(\w+)\s*\}|(?<![\w\\}])C_\{?([3-9]|\d{2,})\}?\^\{?(\d+)\}?")
_PLAIN_UNION = re.compile(r"(?<=[\])}])\s*U\s*(?=[\[({\\])")
_FORMULA_IN_TEXT = re.compile(
    rf"(?<![_^{{])(?:{_TEXT_COMMAND}|\\ce\s*)\{{((?:[A-Z][a-z]?|[()\[\]+^-]|[_^]?\{{\d*[-+]?\}}|_?\d+)+)\}}"
)
"""A chemical formula in upright letters."""
_OPERATOR_NAME = re.compile(r"\\operatorname\*?\s*\{\s*([a-z]+)\s*\}")
_DECIMAL_COMMA = re.compile(r"(?<=\d)\s*\{\s*,\s*\}\s*(?=\d)(?!\d{3}(?!\d))")
_BRACED_COMMA = re.compile(r"\s*\{\s*,\s*\}\s*|,\\!\s*")
_THIN_SPACE = re.compile(r"(?<=\d)\\,(?=\d{3})")
_PLAIN_NAMES = re.compile(
    r"(?<![\\A-Za-z])(?<![A-Za-z]\{)(sqrt|pi|infinity|infty|inf|theta|alpha|beta|gamma|lambda|omega)(?![A-Za-z])"
)
_SCIENTIFIC = re.compile(r"(?<=[\d)])\s*[xX]\s*(?=10\s*\^)")
_BRACE = re.compile(r"\\(?:boxed|fbox)\s*\{|\\[{}\\]|[{}]")
_FRAMES = (re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])"), re.compile(r"\\(?:text)?color\s*\{\w+\}"))
_MOST_WRAPPERS = 20
_WRAPPERS = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"), ("**", "**"), ("`", "`"))


class Surface(NamedTuple):
    body: str
    """The answer itself."""
    in_math: bool
    """True if it was in $...$, \\(...\\), \\[...\\] or \\boxed{...}."""
    in_dollars: bool
    """True if it was in one of these except the last."""
    is_text: bool = False
    """True if all of it was in \\text{...}."""


class Box(NamedTuple):
    start: int
    end: int
    content: str


def boxes(text: str) -> list[Box]:
    """Every closed `\\boxed{…}` that holds no other, from the first to the last, braces matched, contents trimmed."""
    opened: list[tuple[int, int]] = []
    """Start of each open brace and of its content; the latter is -1 for a brace without a box."""
    closed: list[Box] = []
    for match in _BRACE.finditer(text):
        brace = match[0]
        if brace == "}" and opened:
            start, content = opened.pop()
            if content >= 0 and not (closed and closed[-1].start > start):
                closed.append(Box(start, match.end(), text[content : match.start()].strip()))
        elif brace.endswith("{") and brace != r"\{":
            opened.append((match.start(), match.end() if len(brace) > 1 else -1))
    return closed


def plain_characters(text: str) -> str:
    """Replace unusual characters: x² becomes x^{2}, √ becomes \\sqrt, a full-width 1 becomes 1."""
    text = _FORM_FEED.sub(r"\\f", text)
    if text.isascii():
        return text
    text = _ROOT_SIGN.sub(r"\\sqrt{\1}", text)
    text = _RAISED_RUN.sub(lambda run: "^{" + "".join(_RAISED[sign] for sign in run[0]) + "}", text)
    text = _LOWERED_RUN.sub(lambda run: "_{" + "".join(_LOWERED[sign] for sign in run[0]) + "}", text)
    for sign, word in _CHINESE.items():
        text = text.replace(sign, word)
    return text.translate(_TABLE)


@lru_cache(maxsize=8192)
def strip_surface(text: str) -> Surface:
    r"""Take off what surrounds an answer, and write commands in one way.

    >>> strip_surface("$$\\boxed{\\dfrac{1}{2}}.$$").body
    '\\frac{1}{2}'
    """
    text = plain_characters(text).strip()
    in_math = in_dollars = False
    for _ in range(_MOST_WRAPPERS):
        if (inside := _inside(text)) is None:
            break
        in_math = in_math or text[0] in "$\\"
        in_dollars = in_dollars or text.startswith(("$", "\\(", "\\["))
        text = inside.strip()
    if "\\\\" in text and "\\begin" not in text:  # escaped once too often; no rows of a matrix
        text = _DOUBLED_BACKSLASH.sub(r"\\", text)
    is_text = False
    about = "~" if text.startswith("~") else ""  # a doubt; further on it is a space
    text = text.removeprefix("~")
    text = _PLAIN_COMPLEMENT.sub(r"\\mathbb{R} \\setminus ", text)
    if "\\" in text or "~" in text:
        text = _COMMAND.sub(
            lambda command: _COMMANDS.get(command[0], command[0]),
            _BRACED_COMMA.sub(",", _DECIMAL_COMMA.sub(".", _THIN_SPACE.sub("", text))),
        )
        if _VECTORS.search(text):
            text = _CROSS.sub(r"\\crossed ", text)
        text = _OPERATOR_NAME.sub(_operator, _LETTER_FONT.sub(r" \1", _QUOTED.sub(r"\1", text)))
        text = _COLOUR.sub("", _FONT.sub(r" \1", _FORMULA_IN_TEXT.sub(r"\1", text)))
        is_text = _TEXT.fullmatch(text.strip()) is not None
        text = _TEXT.sub(r" \1\2 ", text)
    elif "{" in text:
        text = _BRACED_COMMA.sub(",", _DECIMAL_COMMA.sub(".", text))
    if "**" in text:
        text = text.replace("**", "^")
    text = _CHOOSE.sub(_binomial, text.replace("{:}", ":"))
    text = _PLAIN_UNION.sub(r" \\cup ", _PLAIN_IN.sub(r"\1 \\in ", text))
    text = _SCIENTIFIC.sub("\\\\times ", _PLAIN_NAMES.sub(_with_backslash, text)).strip()
    return Surface(about + text, in_math, in_dollars, is_text)


def _binomial(numbers: re.Match[str]) -> str:
    return f"\\binom{{{numbers[1] or numbers[3]}}}{{{numbers[2] or numbers[4]}}}"


def _operator(name: re.Match[str]) -> str:
    return f"\\{name[1]} "


def _with_backslash(name: re.Match[str]) -> str:
    return "\\infty " if name[0] in ("infinity", "inf") else f"\\{name[0]} "


def _inside(text: str) -> str | None:
    """Content of the outermost wrapper; None without one."""
    if not text:
        return None
    if text[-1] in ".,;" and len(text) > 1 and not text.endswith(("\\,", "\\;", "...")):
        return text[:-1]
    if (lead := _LEAD.match(text)) and lead.end() < len(text):
        return text[lead.end() :]
    if text[0] not in "$\\*`\"'=":
        return None
    if text[0] == "=":
        return text[1:]
    if text[0] in "\"'":
        return text[1:-1] if len(text) > 2 and text[-1] == text[0] and text[0] not in text[1:-1] else None
    for opening, closing in _WRAPPERS:
        if text.startswith(opening) and text.endswith(closing) and len(text) >= len(opening) + len(closing) + 1:
            inside = text[len(opening) : -len(closing)]
            if not inside.endswith("\\") and not (opening[0] in "$*`" and opening[0] in inside.replace("\\$", "")):
                return inside if opening not in inside else None
    for command in _FRAMES:
        if (frame := command.match(text)) and text.endswith("}"):
            rest = text[frame.end() :].lstrip()
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
