"""What surrounds an answer without being part of it: dollar signs, boxes, fonts, spacing, unusual characters."""
# ruff: noqa: RUF001 - look-alikes are what the first table is about

import re

_LATEX = r"""
× \times  · \cdot  ⋅ \cdot  ∙ \cdot  √ \sqrt  ∛ \sqrt[3]  π \pi  ∞ \infty  ≤ \leq  ≥ \geq  ≠ \neq  ≈ \approx
± \pm  ∓ \mp  ° ^\circ  ∪ \cup  ∩ \cap  ∈ \in  ∅ \emptyset  ℝ \mathbb{R}  ∑ \sum  ∫ \int  ∂ \partial  → \to
∠ \angle  △ \triangle  ½ \frac{1}{2}  ⅓ \frac{1}{3}  ⅔ \frac{2}{3}  ¼ \frac{1}{4}  ¾ \frac{3}{4}  µ \mu
α \alpha  β \beta  γ \gamma  δ \delta  ε \epsilon  ζ \zeta  η \eta  θ \theta  ι \iota  κ \kappa  λ \lambda  μ \mu
ν \nu  ξ \xi  ρ \rho  σ \sigma  τ \tau  υ \upsilon  φ \phi  χ \chi  ψ \psi  ω \omega  Γ \Gamma  Δ \Delta
Θ \Theta  Λ \Lambda  Ξ \Xi  Σ \Sigma  Φ \Phi  Ψ \Psi  Ω \Omega
"""
_ASCII = "− - – - — - ÷ / ∕ / ⁄ / ′ ' ’ ' ‘ ' “ \" ” \" 、 , 。 ."
_FULL_WIDTH = {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
_SPACES = dict.fromkeys("\u00a0\u2009\u202f\u3000", " ") | dict.fromkeys("\u200b\ufeff", "")


def _pairs(table: str) -> dict[str, str]:
    words = table.split()
    return dict(zip(words[::2], words[1::2], strict=True))


_TABLE = str.maketrans(
    {sign: f"{latex} " for sign, latex in _pairs(_LATEX).items()} | _pairs(_ASCII) | _FULL_WIDTH | _SPACES
)
_RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n", strict=True))
_LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))
_RAISED_RUN, _LOWERED_RUN = (re.compile(f"[{''.join(table)}]+") for table in (_RAISED, _LOWERED))
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


def plain_characters(text: str) -> str:
    """The text with such characters replaced: x² becomes x^{2}, √ becomes \\sqrt, a full-width 1 becomes 1."""
    if text.isascii():
        return text
    text = _RAISED_RUN.sub(lambda run: "^{" + "".join(_RAISED[sign] for sign in run[0]) + "}", text)
    text = _LOWERED_RUN.sub(lambda run: "_{" + "".join(_LOWERED[sign] for sign in run[0]) + "}", text)
    return text.translate(_TABLE)


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
