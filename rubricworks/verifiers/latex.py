"""One spelling for LaTeX that typesets alike.

LaTeX has many ways to write the same formula; `canonical_latex` chooses one:

- math delimiters go ($x$, \\(x\\), \\[x\\]); without any, the whole text is math;
- white space in math goes, except where it ends a command (\\alpha x); text outside math keeps single spaces;
- commands for spacing and size go (\\, \\; \\! \\quad \\left \\right \\displaystyle \\big …), as do upright and italic
  fonts (\\mathrm{d} is d); bold, blackboard and calligraphic letters stay, they are other symbols;
- synonyms become one: \\dfrac, \\tfrac → \\frac; \\le → \\leq; \\to → \\rightarrow; \\lvert → |; …;
- arguments get braces: \\frac12 → \\frac{1}{2}, x^2 → x^{2}; braces around one symbol elsewhere go: {x} → x;
- a prime is a superscript: x' → x^{\\prime}.

Order and meaning are not considered: a + b differs from b + a here.
"""

import re

_DELIMITER = re.compile(r"\\[\\$]|\$\$|\$|\\[()\[\]]")
_CLOSES = {"$$": "$$", "$": "$", "\\(": "\\)", "\\[": "\\]"}
_TOKEN = re.compile(r"\\[A-Za-z]+\*?|\\.|\s+|'+|.", re.DOTALL)
_SPACING_AND_SIZE = r"""
\, \; \: \! \> ~ \quad \qquad \thinspace \medspace \thickspace \negthinspace \nobreakspace \strut \mathstrut \relax
\left \right \mleft \mright \middle \big \Big \bigg \Bigg \bigl \bigr \Bigl \Bigr \biggl \biggr \Biggl \Biggr
\displaystyle \textstyle \scriptstyle \limits \nolimits \allowbreak \normalsize \small \large \rm \it
"""
_DROPPED = {"\\ ", *_SPACING_AND_SIZE.split()}
_FONTS = r"""
\mathrm \mathit \mathnormal \text \textrm \textit \textnormal \textup \mbox \hbox \operatorname \operatorname*
"""
_UNWRAPPED = set(_FONTS.split())
"""Commands that leave what they hold."""
_SYNONYMS = {
    r"\dfrac": r"\frac", r"\tfrac": r"\frac", r"\cfrac": r"\frac", r"\dbinom": r"\binom", r"\tbinom": r"\binom",
    r"\le": r"\leq", r"\leqslant": r"\leq", r"\ge": r"\geq", r"\geqslant": r"\geq", r"\ne": r"\neq",
    r"\to": r"\rightarrow", r"\gets": r"\leftarrow", r"\iff": r"\Leftrightarrow", r"\implies": r"\Rightarrow",
    r"\land": r"\wedge", r"\lor": r"\vee", r"\lnot": r"\neg", r"\owns": r"\ni", r"\ast": "*", r"\colon": ":",
    r"\lvert": "|", r"\rvert": "|", r"\vert": "|", r"\mid": "|", r"\lVert": r"\|", r"\rVert": r"\|", r"\Vert": r"\|",
    r"\lbrace": r"\{", r"\rbrace": r"\}", r"\lbrack": "[", r"\rbrack": "]", r"\varnothing": r"\emptyset",
    r"\dots": r"\ldots", r"\dotsc": r"\ldots", r"\dotsb": r"\cdots",
    r"\boldsymbol": r"\mathbf", r"\bm": r"\mathbf", r"\textbf": r"\mathbf",
}  # fmt: skip
_WITH_ONE_ARGUMENT = r"""
\sqrt ^ _ \hat \bar \vec \dot \ddot \tilde \overline \underline \widehat \widetilde \mathbf \mathbb \mathcal
"""
_WITH_TWO_ARGUMENTS = r"\frac \binom \overset \underset \stackrel"
_ARGUMENTS = dict.fromkeys(_WITH_ONE_ARGUMENT.split(), 1) | dict.fromkeys(_WITH_TWO_ARGUMENTS.split(), 2)
_DEEPEST = 50


def canonical_latex(text: str) -> str:
    """The text with its LaTeX in the spelling above; nesting deeper than 50 groups is left as it is.

    >>> canonical_latex(r"$\\dfrac12 + x'$") == canonical_latex(r"\\(\\frac{1}{2}+x^{\\prime}\\)")
    True
    """
    marks = list(_DELIMITER.finditer(text))
    last = {mark[0]: mark.start() for mark in marks}
    parts, end, opened = [], 0, None
    for mark in marks:
        if opened is None:
            if last.get(_CLOSES.get(mark[0], ""), -1) > mark.start():
                opened = mark
        elif mark[0] == _CLOSES[opened[0]]:
            parts += [_one_space(text[end : opened.start()]), _math(text[opened.end() : mark.start()])]
            end, opened = mark.end(), None
    if not parts:
        return _math(text)
    return "".join([*parts, _one_space(text[end:])]).strip()


def _one_space(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def _math(text: str) -> str:
    tokens = [token for token in _TOKEN.findall(text) if not token.isspace() and token not in _DROPPED]
    tokens = [_SYNONYMS.get(token, token) for token in tokens]
    written, end = _written(tokens, 0, 0)
    return written if end == len(tokens) else _joined(tokens)


def _written(tokens: list[str], start: int, depth: int) -> tuple[str, int]:
    """The tokens up to the brace that closes this group, and where it stands."""
    parts: list[str] = []
    at = start
    while at < len(tokens) and tokens[at] != "}":
        token = tokens[at]
        if token == "{":
            group, at = _group(tokens, at, depth)
            parts.append(group if _is_one_symbol(group) else "{" + group + "}")
        elif token in _ARGUMENTS or token in _UNWRAPPED:
            written, at = _command(tokens, at, depth)
            parts.append(written)
        elif token[0] == "'":
            parts.append("^{" + "\\prime" * len(token) + "}")
            at += 1
        else:
            parts.append(token)
            at += 1
    return _joined(parts), at


def _command(tokens: list[str], at: int, depth: int) -> tuple[str, int]:
    """A command with its arguments, and what follows it."""
    command, at = tokens[at], at + 1
    if command in _UNWRAPPED:
        group, at = _group(tokens, at, depth + 1)
        return ("\\" + group if command.startswith("\\operatorname") and group.isalpha() else group), at
    parts = [command]
    if command == "\\sqrt" and tokens[at : at + 1] == ["["] and "]" in tokens[at : at + _DEEPEST]:
        close = tokens.index("]", at)
        parts += tokens[at : close + 1]
        at = close + 1
    for _ in range(_ARGUMENTS[command]):
        argument, at = _group(tokens, at, depth + 1)
        parts.append("{" + argument + "}")
    return _joined(parts), at


def _group(tokens: list[str], at: int, depth: int) -> tuple[str, int]:
    """The group or the single token that stands there, and what follows it."""
    if at >= len(tokens) or tokens[at] == "}":
        return "", at
    if depth >= _DEEPEST:
        return "", len(tokens) + 1
    if tokens[at] in _ARGUMENTS or tokens[at] in _UNWRAPPED:  # \frac\sqrt2 3
        return _command(tokens, at, depth + 1)
    if tokens[at] != "{":
        return tokens[at], at + 1
    group, end = _written(tokens, at + 1, depth + 1)
    return group, end + 1


def _is_one_symbol(group: str) -> bool:
    return len(group) <= 1 or bool(re.fullmatch(r"\\[A-Za-z]+", group))


def _joined(parts: list[str]) -> str:
    """One string; a command and a letter after it keep a space between."""
    joined = "".join(f"{part} " if re.search(r"\\[A-Za-z]+\Z", part) else part for part in parts)
    return re.sub(r"(\\[A-Za-z]+) (?![A-Za-z])", r"\1", joined)
