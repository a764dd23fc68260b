# ruff: noqa: RUF001 - answers in Unicode
"""How people and models write answers: trees in LaTeX, Unicode and ASCII, and the wrappers around an answer."""

from dataclasses import dataclass, field
from fractions import Fraction
from random import Random

from answers.trees import Add, Atom, Fn, Mul, Num, Pow, Sum, Sym, Tree, num

DIALECTS = ("latex", "latex", "latex", "unicode", "ascii")
SUPERSCRIPTS = str.maketrans("-+0123456789", "⁻⁺⁰¹²³⁴⁵⁶⁷⁸⁹")
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
GREEK = {"pi": "π", "alpha": "α", "omega": "ω", "theta": "θ", "lambda": "λ", "mu": "μ"}
RELATIONS = {
    "=": ("=", "=", "="),
    "<": ("<", "<", "<"),
    ">": (">", ">", ">"),
    "<=": (r"\le ", "≤", "<="),
    ">=": (r"\ge ", "≥", ">="),
    "!=": (r"\ne ", "≠", "!="),
}
SUM, PRODUCT, POWER, BASE = range(4)
HALF = num(1, 2)


@dataclass
class Style:
    """One writer's habits: drawn once for an answer, so that it is written consistently.

    `careful` says whether the writer is careful: braces around single characters, spaces around signs.
    """

    dialect: str
    rng: Random
    fraction: str = field(init=False)
    times: str = field(init=False)
    number_times: str = field(init=False)
    left_right: bool = field(init=False)
    careful: bool = field(init=False)
    coefficient_first: bool = field(init=False)

    def __post_init__(self) -> None:
        pick, latex = self.rng.choice, self.dialect == "latex"
        self.fraction = pick((r"\frac", r"\frac", r"\dfrac", r"\tfrac", "/")) if latex else "/"
        self.times = (
            pick(("", "", "", r"\cdot ")) if latex else {"unicode": pick(("", "·")), "ascii": "*"}[self.dialect]
        )
        self.number_times = self.spelled(pick((r" \cdot ", r" \times ")), pick("·×"), "*")
        self.left_right = latex and pick((True, False, False))
        self.careful = pick((True, True, False))
        self.coefficient_first = pick((True, False))

    @property
    def latex(self) -> bool:
        return self.dialect == "latex"

    def spelled(self, latex: str, symbol: str, ascii_text: str) -> str:
        """Return the spelling of this dialect."""
        return latex if self.latex else symbol if self.dialect == "unicode" else ascii_text

    def relation(self, name: str) -> str:
        """Return a relation sign between spaces."""
        latex, symbol, plain = RELATIONS[name]
        if self.latex and name in ("<=", ">=") and self.left_right:
            latex = {"<=": r"\leq ", ">=": r"\geq "}[name]
        return f" {self.spelled(latex, symbol, plain).strip()} "

    def word(self, text: str) -> str:
        """Return a word between two formulas."""
        return rf" \text{{ {text} }} " if self.latex else f" {text} "

    def symbol(self, name: str) -> str:
        """Return a symbol, such as `x_1` or `alpha`."""
        letter, _, index = name.partition("_")
        if self.latex:
            letter = rf"\{letter}" if letter in GREEK else letter
            return letter + (f"_{{{index}}}" if self.careful else f"_{index}") if index else letter
        if self.dialect == "unicode":
            return GREEK.get(letter, letter) + index.translate(SUBSCRIPTS)
        return name

    def parens(self, text: str) -> str:
        return rf"\left({text}\right)" if self.left_right or r"\frac" in text else f"({text})"

    def ratio(self, over: str, under: str, simple: bool) -> str:
        """Return a fraction; `simple` says that neither side needs parentheses."""
        if self.latex and (self.fraction != "/" or not simple):
            return f"{self.fraction if self.fraction != '/' else chr(92) + 'frac'}{{{over}}}{{{under}}}"
        return f"{over}/{under}"


def minus_sign(style: Style) -> str:
    return style.spelled("-", "−" if style.careful else "-", "-")


def write(tree: Tree, style: Style, level: int = SUM) -> str:
    """Return a tree as text; `level` says how tightly its surroundings bind."""
    match tree:
        case Num(value):
            if value < 0:
                text = minus_sign(style) + write(Num(-value), style, PRODUCT if level == SUM else level)
                return style.parens(text) if level > SUM else text
            if value.denominator == 1:
                return str(value)
            text = style.ratio(str(value.numerator), str(value.denominator), True)
            return style.parens(text) if level > PRODUCT else text
        case Sym(name):
            return style.symbol(name)
        case Atom(latex, plain):
            return style.rng.choice(latex) if style.latex else plain[-1 if style.dialect == "unicode" else 0]
        case Add(terms):
            text = ""
            for term in terms:
                negative, positive = split_sign(term)
                sign = minus_sign(style) if negative else "+" if text else ""
                text += (f" {sign} " if text and style.careful else sign) + write(
                    positive, style, PRODUCT if negative else SUM
                )
            return style.parens(text) if level > SUM else text
        case Mul():
            negative, positive = split_sign(tree)
            if negative:
                text = minus_sign(style) + write(positive, style, PRODUCT)
                return style.parens(text) if level > SUM else text
            text = product(tree, style)
            return style.parens(text) if level > PRODUCT else text
        case Pow():
            return raised(tree, style, level)
        case Fn(name, argument):
            return call(name, argument, style, "")
        case Sum(body, index, last):
            sign, end = style.spelled(r"\sum", "∑", "sum"), write(last, style)
            end = end if len(end) == 1 and not style.latex else f"{{{end}}}"
            text = f"{sign}_{{{index}=1}}^{end} {write(body, style, PRODUCT)}"
            return style.parens(text) if level > SUM else text
    raise TypeError(tree)


def split_sign(tree: Tree) -> tuple[bool, Tree]:
    """Return whether a term has a minus sign, and the term without it."""
    if isinstance(tree, Num) and tree.value < 0:
        return True, Num(-tree.value)
    if isinstance(tree, Mul):
        for position, factor in enumerate(tree.factors):
            if isinstance(factor, Num) and factor.value < 0:
                rest = [other for place, other in enumerate(tree.factors) if place != position]
                factors = rest if factor.value == -1 else [Num(-factor.value), *rest]
                return True, Mul(tuple(factors)) if len(factors) > 1 else factors[0]
    return False, tree


def product(tree: Mul, style: Style) -> str:
    """Return factors side by side, those with negative exponents in a denominator."""
    coefficient, over, under = Fraction(1), [], []
    for factor in tree.factors:
        if isinstance(factor, Num):
            coefficient *= factor.value
        elif isinstance(factor, Pow) and isinstance(factor.exponent, Num) and factor.exponent.value < 0:
            exponent = -factor.exponent.value
            if exponent == 1 and isinstance(factor.base, Mul):
                scalars = [part.value for part in factor.base.factors if isinstance(part, Num)]
                coefficient /= scalars[0] if scalars else 1
                under += [part for part in factor.base.factors if not isinstance(part, Num)]
            else:
                under.append(factor.base if exponent == 1 else Pow(factor.base, Num(exponent)))
        else:
            over.append(factor)
    top, bottom = coefficient.numerator, coefficient.denominator
    if not under and bottom == 1:
        return side_by_side(top, over, style)
    if not under and over and style.latex and style.coefficient_first and style.fraction != "/":
        return style.ratio(str(top), str(bottom), True) + glue("}", side_by_side(1, over, style), style)
    numerator, denominator = side_by_side(top, over, style, True), side_by_side(bottom, under, style, True)
    simple = not style.latex or (numerator.isalnum() and (denominator.isdigit() or len(denominator) == 1))
    if not style.latex and not is_atomic(bottom, under):
        lone_sum = bottom == 1 and len(under) == 1 and isinstance(under[0], Add)
        denominator = denominator if lone_sum else f"({denominator})"
    return style.ratio(numerator, denominator, simple)


def is_atomic(coefficient: int, factors: list[Tree]) -> bool:
    """Return whether a denominator needs no parentheses in plain text."""
    return len(factors) + (coefficient != 1) <= 1 and not any(isinstance(factor, Add) for factor in factors)


def side_by_side(coefficient: int, factors: list[Tree], style: Style, bracketed: bool = False) -> str:
    """Return a product; `bracketed` says that it is alone inside the braces of a fraction."""
    ordered = sorted(factors, key=function_rank)
    if bracketed and coefficient == 1 and len(ordered) == 1 and style.latex:
        return write(ordered[0], style, SUM)
    text = str(coefficient) if coefficient != 1 or not ordered else ""
    for factor in ordered:
        text += glue(text, write(factor, style, PRODUCT if not isinstance(factor, Sum) else SUM), style)
    return text


def function_rank(factor: Tree) -> int:
    """Sort functions behind the other factors: in `\\sin x y` the argument would be unclear."""
    base = factor.base if isinstance(factor, Pow) else factor
    ranks = {Sum: 3, Fn: 2}
    return ranks.get(type(base), 1 if isinstance(factor, Pow) and factor.exponent == HALF else 0)


def glue(left: str, right: str, style: Style) -> str:
    """Return the right factor, with the sign of multiplication that it needs after the left one."""
    if not left:
        return right
    if right[0].isdigit():
        return style.number_times + right
    if style.latex:
        return (style.times or (" " if left[-1].isalpha() and right[0].isalpha() and "\\" in left else "")) + right
    words = len(right) > 1 and right[:2].isalpha() and right.isascii()
    if left.isdigit() and not words:
        return ("" if style.careful else style.times) + right
    return (style.times or (" " if words or (right[0] not in "(√" and len(right) > 2) else "")) + right


def raised(tree: Pow, style: Style, level: int) -> str:
    """Return a power or a root."""
    base, exponent = tree.base, tree.exponent
    if isinstance(exponent, Num) and exponent.value < 0:
        text = product(Mul((tree,)), style)
        return style.parens(text) if level > PRODUCT else text
    if exponent == HALF:
        if style.latex:
            inner = write(base, style)
            return (
                rf"\sqrt{inner}" if len(inner) == 1 and inner.isdigit() and not style.careful else rf"\sqrt{{{inner}}}"
            )
        if style.dialect == "unicode":
            inner = write(base, style, BASE)
            return f"√({inner})" if isinstance(base, Pow) and inner[0] != "(" else f"√{inner}"
        return f"sqrt({write(base, style)})"
    if isinstance(exponent, Num) and exponent.value.numerator == 1 and exponent.value.denominator > 1 and style.latex:
        return rf"\sqrt[{exponent.value.denominator}]{{{write(base, style)}}}"
    if isinstance(base, Fn) and isinstance(exponent, Num) and style.latex:
        return call(base.name, base.argument, style, f"^{{{write(exponent, style)}}}")
    if base == Sym("e") and style.coefficient_first and not isinstance(exponent, Num | Sym):
        return call("exp", exponent, style, "")
    below = write(base, style, BASE)
    if isinstance(base, Sum | Atom):
        below = style.parens(below)
    above = write(exponent, style)
    if style.latex:
        return f"{below}^{above}" if len(above) == 1 and not style.careful else f"{below}^{{{above}}}"
    if style.dialect == "unicode" and above.isdigit():
        return below + above.translate(SUPERSCRIPTS)
    sign = "**" if style.dialect == "ascii" and not style.careful else "^"
    return f"{below}{sign}{above if above.isdigit() or len(above) == 1 else f'({above})'}"


def call(name: str, argument: Tree, style: Style, exponent: str) -> str:
    """Return a function with its argument; in LaTeX a short argument may have no parentheses."""
    inner = write(argument, style)
    if not style.latex:
        if name == "abs":
            return f"|{inner}|"
        return f"{name.replace('_2', '₂').replace('_3', '₃') if style.dialect == 'unicode' else name}({inner})"
    if name == "abs":
        return f"|{inner}|{exponent}"
    macro = rf"\{name.partition('_')[0]}" + (f"_{{{name[4:]}}}" if name.startswith("log_") else "")
    bare = isinstance(argument, Sym) or (isinstance(argument, Num) and inner.isdigit())
    bare |= isinstance(argument, Mul) and inner.isalnum() and style.coefficient_first
    if bare and not style.left_right and not style.times and name != "exp":
        return f"{macro}{exponent} {inner}"
    return f"{macro}{exponent}{style.parens(inner)}"


LATEX_WRAPPERS = {
    "bare": "@",
    "dollars": "$@$",
    "double dollars": "$$@$$",
    "round delimiters": r"\(@\)",
    "square delimiters": r"\[@\]",
    "box": r"\boxed{@}",
    "box in dollars": r"$\boxed{@}$",
    "coloured box": r"\boxed{\color{red}{@}}",
    "display style": r"$\displaystyle @$",
    "spaced": r"$\, @ \,$",
    "sentence": "The answer is $@$.",
    "sentence with colon": r"The final answer is: \(@\)",
    "conclusion": "Therefore, the final answer is $@$.",
    "label": "Answer: $@$",
    "bold label": "**Answer:** $@$",
    "boxed conclusion": r"We simplify and obtain the result. Hence the answer is $\boxed{@}$.",
    "final answer in a box": r"**Final Answer**" + "\n\n" + r"\[\boxed{@}\]",
    "therefore": r"\therefore @",
    "Chinese sentence": "答案是 $@$。",
    "Chinese label": "答案：$@$",
    "Chinese conclusion": r"所以，最终答案为 \(\boxed{@}\)。",
}
PLAIN_WRAPPERS = {
    "bare": "@",
    "bold": "**@**",
    "box": r"\boxed{@}",
    "sentence": "The answer is @.",
    "sentence with colon": "The final answer is: @",
    "conclusion": "So the answer is @.",
    "label": "Answer: @",
    "bold label": "**Answer:** @",
    "final label": "Final answer: @",
    "Chinese sentence": "答案是@。",
    "Chinese label": "答案：@",
}
DENIALS = ("The answer is not @.", "It is definitely not @.", "The answer cannot be @.", "答案不是@。", "It isn't @.")


def wrap(text: str, style: Style, calm: bool = False, scalar: bool = False) -> tuple[str, str]:
    """Return the name of a wrapper and the text in it: with `calm` one of a target, with `scalar` one that names it."""
    if calm:
        name = style.rng.choice(("bare", "bare", "dollars")) if style.latex else "bare"
        return name, (LATEX_WRAPPERS if style.latex else PLAIN_WRAPPERS)[name].replace("@", text)
    wrappers = LATEX_WRAPPERS if style.latex else PLAIN_WRAPPERS
    name = style.rng.choice(list(wrappers)) if style.rng.random() < 0.8 else "bare"
    unboxable = not style.latex and ("**" in text or "{" in text or not text.isascii())
    if (name == "bold" and "*" in text) or (name == "box" and unboxable):
        name = "bare"
    template = wrappers[name]
    if scalar and "=" not in text and style.rng.random() < 0.08:
        name, template = "equals", "So x equals $@$." if style.latex else "So x equals @."
    return name, template.replace("@", text.rstrip(".") if "@." in template or "@。" in template else text)


def denied(text: str, style: Style) -> str:
    """Return a sentence that states an answer and denies it."""
    return style.rng.choice(DENIALS).replace("@", f"${text}$" if style.latex else text)
