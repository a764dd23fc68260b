"""Answers in words: option letters, names, yes and no, chemical formulas."""

from dataclasses import dataclass
from random import Random

from answers.numbers import Raw, Writer
from answers.spelling import SUBSCRIPTS, SUPERSCRIPTS

LETTERS = "ABCDE"
OPTION_TEXTS = (
    "red",
    "at sunrise",
    "a triangle",
    "the left one",
    "It increases",
    "the longer one",
    "Both of them",
    "a dog",
    "parallel",
)


def spelled(latex: str, plain: str | None = None) -> Writer:
    return lambda style: latex if style.latex else plain or latex


@dataclass(frozen=True)
class Choice:
    """One option letter, perhaps with the text of the option, or several letters."""

    letters: str
    text: str = ""
    kind = "choice"

    def forms(self, rng: Random) -> dict[str, Writer]:
        if len(self.letters) > 1:
            shuffled = "".join(rng.sample(self.letters, len(self.letters)))
            return {
                "letters": spelled(", ".join(self.letters)),
                "letters in text": spelled(rf"\text{{{', '.join(self.letters)}}}", ", ".join(self.letters)),
                "letters reordered": spelled(", ".join(shuffled)),
                "letters without spaces": spelled(",".join(self.letters)),
                "letters with and": spelled(
                    rf"\text{{{', '.join(shuffled[:-1])} and {shuffled[-1]}}}",
                    f"{', '.join(shuffled[:-1])} and {shuffled[-1]}",
                ),
                "Chinese enumeration": spelled(rf"\text{{{'、'.join(self.letters)}}}", "、".join(self.letters)),
            }
        letter = self.letters
        forms = {
            "letter": spelled(letter),
            "letter in text": spelled(rf"\text{{{letter}}}", letter),
            "parentheses": spelled(f"({letter})"),
            "bold": spelled(rf"\textbf{{({letter})}}", f"**({letter})**"),
            "option": spelled(rf"\text{{Option {letter}}}", f"Option {letter}"),
            "roman": spelled(rf"\mathrm{{{letter}}}", f"{letter}."),
        }
        if self.text:
            forms["with text"] = spelled(rf"\text{{{letter}. {self.text}}}", f"{letter}. {self.text}")
            forms["in parentheses with text"] = spelled(rf"\text{{({letter}) {self.text}}}", f"({letter}) {self.text}")
        return forms

    def mutations(self, rng: Random) -> dict[str, "Choice | Raw"]:
        others = [letter for letter in LETTERS if letter not in self.letters]
        other, text = rng.choice(others), rng.choice([text for text in OPTION_TEXTS if text != self.text])
        if len(self.letters) > 1:
            return {
                "letter": Choice("".join(sorted(self.letters[1:] + other))),
                "dropped letter": Choice(self.letters[1:]),
                "added letter": Choice("".join(sorted(self.letters + other))),
            }
        return {
            "letter": Choice(other, text if self.text else ""),
            "added letter": Choice("".join(sorted(self.letters + other))),
            "either of two": Raw(rf"\text{{{self.letters} or {other}}}", f"{self.letters} or {other}"),
        }

    def unequal(self, other: object) -> bool:
        return isinstance(other, Raw) or (isinstance(other, Choice) and other.letters != self.letters)


def draw_choice(rng: Random) -> Choice:
    if rng.random() < 0.25:
        return Choice("".join(sorted(rng.sample(LETTERS, rng.choice((2, 2, 3))))))
    return Choice(rng.choice(LETTERS), rng.choice(OPTION_TEXTS) if rng.random() < 0.4 else "")


FAMILIES = {
    "yes or no": ("Yes", "No"),
    "name": (
        "Paris",
        "London",
        "Evelyn",
        "Amara",
        "Marie Curie",
        "Mount Everest",
        "Jupiter",
        "Saturn",
        "Texas",
        "Cairo",
    ),
    "shape": ("an isosceles triangle", "a square", "a rhombus", "a hyperbola", "a circle", "an ellipse"),
    "term": (
        "obtuse",
        "acute",
        "isosceles",
        "parallel",
        "perpendicular",
        "photosynthesis",
        "mitosis",
        "clockwise",
        "counterclockwise",
        "kinetic energy",
        "friction",
        "increasing",
        "decreasing",
    ),
    "Chinese": ("等腰三角形", "正方形", "增函数", "北京", "平行"),
}
# Each formula by its elements and counts, and its charge.
FORMULAS = (
    (("H", 2), ("O", 1), ""),
    (("C", 1), ("O", 2), ""),
    (("Na", 2), ("S", 1), ("O", 4), ""),
    (("Fe", 1), "3+"),
    (("S", 1), ("O", 4), "2-"),
    (("Na", 1), ("Cl", 1), ""),
    (("C", 6), ("H", 12), ("O", 6), ""),
    (("N", 1), ("H", 3), ""),
    (("K", 1), ("Mn", 1), ("O", 4), ""),
    (("Fe", 2), ("O", 3), ""),
)


@dataclass(frozen=True)
class Text:
    """A name, a term or an answer in words; `others` would be wrong."""

    text: str
    others: tuple[str, ...]
    kind = "text"

    def forms(self, rng: Random) -> dict[str, Writer]:
        forms = {
            "words": spelled(rf"\text{{{self.text}}}", self.text),
            "bold words": spelled(rf"\textbf{{{self.text}}}", f"**{self.text}**"),
        }
        if self.text.isascii():
            forms["quotes"] = spelled(rf"\text{{``{self.text}''}}", f'"{self.text}"')
        if self.text.isalpha() and self.text.isascii():
            forms["roman words"] = spelled(rf"\mathrm{{{self.text}}}", self.text)
        return forms

    def mutations(self, rng: Random) -> dict[str, "Text | Raw"]:
        other = rng.choice(self.others)
        mutations: dict[str, Text | Raw] = {"other words": Text(other, (self.text,))}
        if self.text not in FAMILIES["yes or no"] and self.text.isascii():
            mutations["negated"] = Raw(rf"\text{{not {self.text}}}", f"not {self.text}")
            mutations["either of two"] = Raw(rf"\text{{{self.text} or {other}}}", f"{self.text} or {other}")
        return mutations

    def unequal(self, other: object) -> bool:
        return isinstance(other, Raw | Formula) or (isinstance(other, Text) and other.text != self.text)


@dataclass(frozen=True)
class Formula:
    """A chemical formula or an ion."""

    elements: tuple[tuple[str, int], ...]
    charge: str
    kind = "text"

    def forms(self, rng: Random) -> dict[str, Writer]:
        counts = [(element, str(count) if count > 1 else "") for element, count in self.elements]
        subscripted = "".join(
            element + (f"_{{{count}}}" if len(count) > 1 else f"_{count}" if count else "") for element, count in counts
        )
        charge = f"^{{{self.charge}}}" if self.charge else ""
        linear = "".join(element + count for element, count in counts)
        raised = self.charge.translate(SUPERSCRIPTS)
        unicode_text = "".join(element + count.translate(SUBSCRIPTS) for element, count in counts) + raised
        plain = linear + (f"^{self.charge}" if self.charge else "")
        textual = "".join(rf"\text{{{element}}}" + (f"_{{{count}}}" if count else "") for element, count in counts)

        def by_dialect(latex: str) -> Writer:
            return lambda style: latex if style.latex else unicode_text if style.dialect == "unicode" else plain

        return {
            "subscripts": by_dialect(subscripted + charge),
            "roman formula": by_dialect(rf"\mathrm{{{subscripted}{charge}}}"),
            "elements in text": by_dialect(textual + charge),
            "mhchem": by_dialect(rf"\ce{{{linear}{charge}}}"),
        }

    def mutations(self, rng: Random) -> dict[str, "Formula"]:
        position = rng.randrange(len(self.elements))
        element, count = self.elements[position]

        def with_element(*changed: tuple[str, int]) -> Formula:
            return Formula(self.elements[:position] + changed + self.elements[position + 1 :], self.charge)

        mutations = {
            "subscript": with_element((element, count + 1)),
        }
        replacement = {"H": "F", "O": "S", "C": "N", "Na": "K", "Fe": "Cu"}.get(element)
        if replacement and all(replacement != name for name, _ in self.elements):
            mutations["element"] = with_element((replacement, count))
        if len(self.elements) > 1:
            mutations["dropped element"] = with_element()
        if self.charge:
            mutations["charge"] = Formula(self.elements, {"3+": "2+", "2-": "2+"}[self.charge])
        return mutations

    def unequal(self, other: object) -> bool:
        return isinstance(other, Raw | Text) or (isinstance(other, Formula) and other != self)


def draw_text(rng: Random) -> Text | Formula:
    if rng.random() < 0.3:
        *elements, charge = rng.choice(FORMULAS)
        return Formula(tuple(elements), charge)
    family = rng.choice(list(FAMILIES.values()))
    text = rng.choice(family)
    return Text(text, tuple(other for other in family if other != text))
