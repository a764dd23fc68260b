"""One spelling for LaTeX: what typesets alike becomes equal, what means something else stays different."""

import pytest

from rubricworks.verifiers import text_verify

ALIKE = [
    (r"\frac{1}{2}", r"\frac12"), (r"\frac{1}{2}", r"\tfrac 1 2"), (r"\frac{\sqrt{2}}{3}", r"\frac\sqrt2 3"),
    (r"\sqrt[3]{x}", r"\sqrt[3]x"), (r"x^{2}y_{i}", r"x^2 y_i"), (r"x_{\text{max}}", r"x_\mathrm{max}"),
    (r"\left( a + b \right)", r"(a+b)"), (r"a \le b", r"a\leq b"), (r"a \to b", r"a\rightarrow b"),
    (r"\alpha x", r"\alpha{x}"), (r"f''(x)", r"f^{\prime\prime}(x)"), (r"\,x\quad y", "xy"),
    (r"\operatorname{sin} x", r"\sin x"), (r"14{,}000", "14,000"), (r"$$a$$", r"\[a\]"),
    (r"The energy  is $E = mc^2$.", r"The energy is \(E=mc^{2}\)."), (r"\lvert x \rvert", "|x|"),
    (r"\begin{matrix} a & b \\ c & d \end{matrix}", r"\begin{matrix}a&b\\c&d\end{matrix}"),
]  # fmt: skip
DIFFERENT = [
    (r"\alpha+\beta", r"\beta+\alpha"), (r"\mathbf{x}", "x"), (r"\frac{1}{2}", r"\frac{2}{1}"), ("x^2", "x_2"),
    (r"\leq", r"\geq"), ("a b $x$", "ab $x$"), (r"\sin x", r"\cos x"), ("x^{ab}", "x^ab"), (r"\mathbb{R}", "R"),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), ALIKE, ids=str)
def test_spellings_of_the_same_formula_are_alike(a, b):
    assert text_verify(a, target=b, use_latex=True) == 1
    assert text_verify(a, target=b) < 1


@pytest.mark.parametrize(("a", "b"), DIFFERENT, ids=str)
def test_other_formulas_stay_different(a, b):
    assert text_verify(a, target=b, use_latex=True) < 1


HOSTILE = ["{" * 50_000, "^" * 50_000, r"\frac" * 20_000, r"\sqrt[" * 16_000, r"\(" * 40_000, "$" * 50_001, "a}b", "\\"]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:8])
def test_broken_or_hostile_latex_has_a_spelling_too(text):
    assert text_verify(text, target=text, use_latex=True) == 1
