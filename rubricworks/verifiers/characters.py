"""Mathematical characters and their LaTeX, full-width characters and their ASCII twins."""
# ruff: noqa: RUF001 - look-alikes are what this table is about

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


def plain_characters(text: str) -> str:
    """The text with such characters replaced: x² becomes x^{2}, √ becomes \\sqrt, a full-width 1 becomes 1."""
    if text.isascii():
        return text
    text = _RAISED_RUN.sub(lambda run: "^{" + "".join(_RAISED[sign] for sign in run[0]) + "}", text)
    text = _LOWERED_RUN.sub(lambda run: "_{" + "".join(_LOWERED[sign] for sign in run[0]) + "}", text)
    return text.translate(_TABLE)
