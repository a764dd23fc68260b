"""Words: those that keep a text from stating the value in it, options of a question, one spelling of a phrase."""

import re

from rubricworks.verifiers.expression.units import read_unit

_DENIALS = r"""
not \w+n't isnt arent cant dont doesnt never (?-i:[Nn]o) nor neither cannot wrong incorrect false untrue impossible
maybe perhaps possibly probably presumably guess\w* suspect\w* doubt\w* believe think suppose\w* assum\w+ seems?
appears? unlikely unsure uncertain unclear unknown either (?-i:[Ii]f) whether unless instead rather
rul(?:e|es|ed|ing)\s+out exclud\w+ eliminat\w+ reject\w* den(?:y|ies|ied) anything\s+but other\s+than fail\w* discard\w*
drop(?:s|ped|ping)? ignor\w+ mistak\w+ erroneous\w* traps? naive tempting absurd invalid extraneous contradict\w*
violat\w+ bounds? decoy\w* distractor\w* typical\w* careless\w* misread\w*
(?:many|some|most)\s+(?:people|students|say|get|think) errors?\s+gives? thought believed claimed wrongly incorrectly
refut\w+ disprov\w+ dismiss\w* overlook\w* toss\w* forget\w* skip\w* delet\w+ remov\w+ cross(?:ed)?\s+out used\s+to
misprint\w* (?:old|previous|initial|earlier)\s+(?:answer|guess|result|attempt)
"""
_MODALS = "might could would may can"
_REST = r"without except (?-i:[Oo]r)"
_BOUNDS = r"""
at\s+least at\s+most more less fewer greater larger smaller higher lower than about approximately around roughly nearly
almost over under above below beyond up\s+to between within twice double triple half squared cubed times plus minus per
"""


def _any_of(*words: str) -> str:
    return rf"\b(?:{'|'.join(' '.join(words).split())})\b"


DOUBTS = re.compile(_any_of(_DENIALS, _REST, *(rf"{modal}\s+be" for modal in _MODALS.split())), re.IGNORECASE)
"""Negations, guesses, conditions and alternatives."""
BOUNDS = re.compile(_any_of(_BOUNDS), re.IGNORECASE)
"""Words that make a number a bound, a guess or a part of the value."""
_DENIED = re.compile(_any_of(_DENIALS), re.IGNORECASE)
_MODAL_LAST = re.compile(_any_of(_MODALS) + r"(?:\s+\w+)?\W*\Z", re.IGNORECASE)
_OR_FIRST = re.compile(r"\W*or\b")
_DIGIT = re.compile(r"\d")


_ELEMENTS = """
H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb Sr Y Zr Nb Mo Tc Ru
Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu Hf Ta W Re Os Ir Pt Au Hg Tl Pb Bi Po At
Rn Fr Ra Ac Th Pa U Np Pu Am Cm Bk Cf Es Fm Md No Lr Rf Db Sg Bh Hs Mt Ds Rg Cn Nh Fl Mc Lv Ts Og
"""
_ELEMENT = rf"(?:{'|'.join(sorted(_ELEMENTS.split(), key=len, reverse=True))})"
_CHEMICAL = re.compile(rf"\d*(?:(?:[(\[](?={_ELEMENT}))*{_ELEMENT}\d*(?:[)\]]\d*)*)+(?:\^?\d?[+-])?")


def is_formula(text: str) -> bool:
    """Return True for a chemical formula, in which the case counts."""
    return _CHEMICAL.fullmatch(text) is not None


def same_letters(a: str, b: str) -> bool:
    """Compare letters in either case, but of chemical formulas: CO is not Co, while no is No.

    >>> same_letters("CO", "Co"), same_letters("no", "No")
    (False, True)
    """
    if a.casefold() != b.casefold():
        return False
    return not any(x != y and is_formula(x) and is_formula(y) for x, y in zip(a.split(), b.split(), strict=True))


def is_doubted(lead: str) -> bool:
    """Return True if the words before a value deny it or leave it open; what they say of numbers before does not count.

    >>> is_doubted("It is not true that x is"), is_doubted("It is not 4, but it is")
    (True, False)
    """
    lead = _DIGIT.split(lead)[-1]
    return any(pattern.search(lead) for pattern in (_DENIED, _MODAL_LAST)) or _OR_FIRST.match(lead) is not None


_PREFIX = r"(?:(?:the\s+)?(?:correct\s+|right\s+|final\s+)?(?:option|choice|answer)\s*(?:is\s+)?:?\s*)?"
_OPTION = re.compile(
    rf"{_PREFIX}(?:[(\[]\s*(?P<bracketed>[A-Ja-j])\s*[)\]](?:[.:]\s*|\s+|(?=$))|(?P<marked>[A-Ja-j])(?:\s*[.)]\s*|:\s+)"
    r"|(?P<dashed>[A-J])\s+--?\s+(?=[A-Za-z])|(?P<alone>[A-J])(?=\s*$))(?P<text>.*)",
    re.IGNORECASE | re.DOTALL,
)
_OTHER_OPTION = re.compile(r"(?<![A-Za-z])(?:[(\[][A-Ja-j][)\]]|[A-J][.):]\s|(?:option|choice)\s+[A-J]\b)")
_JOINED = re.compile(r"\W*(?:(?:and|or|but|not|nor|&|/|,)(?![A-Za-z])|[A-Za-z]\W*$|[-+=<>^*/])", re.IGNORECASE)


def read_option(text: str) -> tuple[str, str] | None:
    """The letter in upper case, and the text that follows it; None if the text names no option, or two, or doubts it.

    >>> read_option("(b) the red one"), read_option("A or B"), read_option("A dog")
    (('B', 'the red one'), None, None)
    """
    match = _OPTION.fullmatch(text.strip())
    if match is None:
        return None
    letter = match["bracketed"] or match["marked"] or match["dashed"] or match["alone"]
    rest = match["text"].strip(" .")
    if rest and (_JOINED.match(rest) or _OTHER_OPTION.search(rest) or DOUBTS.search(rest) or "?" in rest):
        return None
    if match["dashed"] and re.search(r"[=<>^\\]", rest):  # F - ma = 0
        return None
    if match["marked"] and re.match(r"\d", rest) and ":" in match[0][:2]:  # a: 5 gives a its value
        return None
    return letter.upper(), rest


_TOKEN = re.compile(r"\\[A-Za-z]+|[A-Za-z]+(?:'[a-z]+)?|\d+(?:,\d{3})*(?:\.\d+)?|\^\s?\{?\s?\\circ\s?\}?|[^\sA-Za-z\d]")
_SHORT_ENGLISH = {"am", "as", "at", "be", "he", "in", "no"}

_DIRECTIONS = {"n": "north", "s": "south", "e": "east", "w": "west"}


def phrase_of(text: str) -> str:
    """One spelling of a text: numbers in digits, units by size, no articles, plurals or commas."""
    words: list[str] = []
    tokens = _TOKEN.findall(text)
    for place, token in enumerate(tokens):
        previous = words[-1] if words else ""
        if "\\circ" in token or token == "°":
            words.append("degree")
        elif token[0].isdigit():
            words.append(token.replace(",", ""))
        elif token == "%" or token.casefold() in ("percent", "pct"):
            words.append("percent")
        elif token[0].isalpha() and previous[:1].isdigit() and (unit := read_unit(token)):
            words.append("degree" if unit.dimensions == (("degree", 1),) else f"{unit.factor} {unit.dimensions}")
        elif token.casefold() in _DIRECTIONS and previous == "degree":
            words.append(_DIRECTIONS[token.casefold()])
        elif token[0].isalpha():
            keeps_case = is_formula(token) and token.casefold() not in _SHORT_ENGLISH
            word = token if keeps_case and len(token) > 1 else token.casefold()
            is_article = word in ("a", "an", "the") and place < len(tokens) - 1 and (token == word or place == 0)
            words += [] if is_article else [singular(word) or word]
        elif token not in ",.;{}":
            words.append(token)
    return " ".join(words)


_NO_NOUNS = """
less more fewer extra plus minus time percent point half halve third quarter fourth fifth sixth seventh eighth ninth
tenth hundredth thousandth hundred thousand million billion dozen pair score gross ten one two unit square cube root
fold degree perhaps versus unless beside always sometime toward afterward thus this does yes across max min approx short
off out over under above below north south east west left right up down wrong correct maybe only ago later early earlier
high low squared cubed else other each not and but nor the per from too cannot never about around nearly almost roughly
exactly fail lose break misse contradict violate conflict err miss disagree differ exceed overshoot undershoot
"""
_IRREGULAR = {
    "people": "person", "persons": "person", "men": "man", "women": "woman", "children": "child", "mice": "mouse",
    "geese": "goose", "sheep": "sheep", "fish": "fish", "deer": "deer", "aircraft": "aircraft", "species": "species",
    "vertices": "vertex", "axes": "axis", "matrices": "matrix", "leaves": "leaf", "knives": "knife", "wolves": "wolf",
    "loaves": "loaf", "shelves": "shelf",
}  # fmt: skip
_NO_NOUN_SET = set(_NO_NOUNS.split())


def singular(word: str, *, is_one: bool = False) -> str | None:
    """The singular of a plural noun, or the word itself after a one; None for a word that counts nothing."""
    if word in _NO_NOUN_SET or word.removesuffix("s") in _NO_NOUN_SET:
        return None
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) >= 4 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        if word.endswith("ies"):
            return word[:-3] + "y"
        return word[:-2] if word.endswith(("xes", "ches", "shes", "sses")) else word[:-1]
    return word if is_one and len(word) >= 3 else None
