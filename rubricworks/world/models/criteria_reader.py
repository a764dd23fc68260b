"""The scripted judge as a reader of criteria: what each asks for, and whether its words alone would state that.

It counts the facts about scenes that a criterion's text asks for, whatever words join them. A fact is a mention of an
object with its properties and place ("a big red circle at the top left"), a property of an object that is spoken of
("says that the circle is red"), a number of objects, a word, a relation, or that nothing is invented. What it knows of
English is which verbs tell a fact and which only name what is to be done with it. It errs on as many answers as the
judge on verdicts; an error depends on criterion and list alone, so that another list gives another chance.
"""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from typing import Literal, NamedTuple

from rubricworks.world.chat import section
from rubricworks.world.models.judges import JUDGE_ERROR_RATE, errs
from rubricworks.world.scene.captions import place
from rubricworks.world.scene.parsing import NUMBERS, RELATIONS, sentences
from rubricworks.world.scene.scene import CELLS, COLOURS, SHAPES, SIZES, WORDS

NOTHING_TO_READ = "I read criteria about scenes; this message holds no <criteria_to_read> list that I can read."

_Kind = Literal["object", "colour", "size", "count", "word", "relation", "inventions"]
_PROPERTIES: tuple[_Kind, ...] = ("colour", "size", "object")
"""Kinds of what is told of an object; its shape has the kind of an object, and no name."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _forms(verbs: str) -> frozenset[str]:
    """Inflected forms of verbs."""
    forms: set[str] = set()
    for verb in verbs.split():
        stem = verb.removesuffix("e")
        forms |= {verb, f"{verb}s", f"{verb}es", f"{stem}ing", f"{stem}ed", f"{verb}{verb[-1]}ing"}
        if verb.endswith("y"):
            forms.add(f"{verb[:-1]}ies")
        if verb == "have":
            forms.add("has")
    return frozenset(forms)


_NOUNS = _words("object objects thing things figure item items element")
_PICTURE = _words("picture image scene caption")
_ARTICLES = _words("a an the this that its one any some exactly only just also there is are")
_OF_PLACE = _words(
    "at in on to near by of the is are was that which sits sitting stands standing lies lying placed located found "
    "seen shown positioned part corner side area spot position place far hand"
)
"""Words between an object and its place."""
_LINK = _words(
    "is are was be being as has have looks look appears appear seems seem to in of for the a an that which it its "
    "whose painted coloured colored drawn filled with on goes shown both"
)
"""Words between an object and a property that is told of it."""
_TOPIC = _words("of for about regarding concerning on to whether that how why what")
"""Words before an object that is spoken of, so that a property of it follows."""
_NO_TOPIC = _words("mention mentions note notes record notice presence addition next sight location top existence")
_NOT_PLACES = _words("number answer count colour color size shape word name way kind one term")
_ASPECTS = {"colour": "colour", "color": "colour", "hue": "colour", "size": "size", "shape": "object"}
_INVENTED = _words("unsupported invented invents inventing")
_TEXT_NOUNS = _words("word text lettering inscription writing")

_TELLING = _forms(
    "say state name mention report note indicate identify give tell list include contain read specify assert "
    "declare affirm acknowledge establish record register call label place put locate spot see find show feature "
    "have present provide offer supply cite quote recognise recognize confirm claim announce remark observe count "
    "enumerate convey communicate express detect notice point refer position set situate capture catch write copy "
    "transcribe spell attribute assign ascribe term designate mark know hold make stipulate maintain contend "
    "determine inform warn recall conclude infer suggest answer depict use reproduce disclose reveal signal mean "
    "submit propose posit aver avow profess allege insist concede admit agree"
)
"""Verbs whose claim states the fact that follows."""
_ACTING = _forms(
    "describe discuss explain explore analyse analyze address cover consider evaluate assess examine treat handle "
    "elaborate detail clarify illustrate outline summarise summarize compare contrast interpret justify "
    "characterise characterize portray unpack review investigate weigh reflect comment dwell expand account "
    "demonstrate highlight emphasise emphasize stress articulate engage tackle touch delve walk motivate argue "
    "critique appraise contextualise contextualize introduce talk speak deal go probe study scrutinise scrutinize "
    "ponder contemplate rationalise rationalize debate defend support substantiate expound recount narrate evoke "
    "devote attend focus concentrate inspect survey look think understand appreciate attempt help teach guide "
    "develop build work dig"
)
"""Verbs that name what is done with a topic."""
_ABOUT = _words("about on upon regarding concerning into over around through with towards toward")
_ASKING = _words("how why whether what which where who when")
_AFTER_THAT = _words("the a an it there at in on its no some each every that this exactly") | frozenset(NUMBERS)
_MENTIONING = _words("mention note name record notice report statement presence existence location position place")
_SUBJECT = re.compile(
    r"^(?:[\w ]{1,20} criteri(?:a|on):\s*)?(?:(?:the|a|its|each|any) (?:\w+ )?"
    r"(?:response|caption|answer|description|text|writer|author|model|assistant|report)\s+)?"
    r"(?:(?:should|must|shall|has to|needs to|ought to|will|does|also)\s+|\w+ly\s+)*",
    re.IGNORECASE,
)
"""Category, subject, modal verbs and adverbs, with which a criterion may open."""


class _Element(NamedTuple):
    """A piece of a sentence that names something of a scene, at these tokens."""

    kind: _Kind
    start: int
    end: int
    value: str = ""
    cell: str = ""
    is_named: bool = True
    """False for an aspect without a value: "its colour"."""


def asks_for_reading(prompt: str) -> bool:
    return section(prompt, "criteria_to_read") is not None


def reading_reply(prompt: str) -> str:
    """The JSON answer to a request to read criteria."""
    listed = section(prompt, "criteria_to_read") or ""
    try:
        criteria = [(int(row["id"]), str(row["text"])) for row in json.loads(listed)]
    except (ValueError, KeyError, TypeError):
        return NOTHING_TO_READ
    return json.dumps({"readings": [{"id": number, **_reading(text, listed)} for number, text in criteria]})


def _reading(text: str, listed: str) -> dict[str, object]:
    assertions = list(assertions_of(text)) or [" ".join(text.split()[:10]) or "nothing"]
    if errs(JUDGE_ERROR_RATE, "assertions", text, listed):
        assertions = assertions[:1] if len(assertions) > 1 else [*assertions, "and does so in words"]
    content = states_content(text) != errs(JUDGE_ERROR_RATE, "content", text, listed)
    return {"assertions": assertions, "states_content": content}


def assertions_of(text: str) -> tuple[str, ...]:
    """Facts about a scene that a criterion asks for, each once."""
    facts: dict[tuple[str, str], str] = {}
    subject = ""
    for tokens in _sentences(text):
        elements = list(_elements(tokens))
        for at, element in enumerate(elements):
            if _is_object(element):
                if at and _is_name_of(tokens, elements[at - 1], element):
                    facts[subject, "object"] = _phrase(element._replace(cell=elements[at - 1].cell))
                    continue
                subject = element.cell or element.value
                if not _is_spoken_of(tokens, elements, at):
                    facts.setdefault((subject, "object"), _phrase(element))
            elif element.kind in _PROPERTIES:
                owner = _owner(tokens, elements, at)
                subject = (owner.cell or owner.value) if owner else subject
                facts.setdefault((subject, element.kind), f"the {element.kind} {element.value}".strip())
            else:
                facts.setdefault(("", element.kind), f"the {element.kind} {element.value}".strip())
    return tuple(facts.values())


def states_content(text: str) -> bool:
    """Return True if the words before the first fact of a criterion tell it, and it has a value."""
    for tokens in _sentences(text):
        elements = list(_elements(tokens))
        if elements:
            named = [element for element in elements if element.is_named]
            return bool(named) and _tells([token.lower() for token in tokens[: elements[0].start]])
    words = [token.lower() for tokens in _sentences(text) for token in tokens]
    return not set(words[:4]) & _ASKING and bool(words) and words[0] in _TELLING


def _sentences(text: str) -> list[list[str]]:
    """Sentences of a criterion without the words that it opens with."""
    return [tokens for tokens in sentences(_SUBJECT.sub("", text.strip(), count=1)) if tokens]


def _tells(frame: Sequence[str]) -> bool:
    """Return True if words that stand before a fact introduce what is told, not a topic."""
    words = [word for word in frame if word not in (",", ":")]
    if all(word in _ARTICLES or word in _OF_PLACE for word in words):
        return True
    if set(words) & _ASKING:
        return False
    if "that" in words:
        after = words[len(words) - words[::-1].index("that") :]
        if not after or after[0] in _AFTER_THAT:
            return True
    content = [word for word in words if word not in _ARTICLES]
    if content[-1] in _ABOUT and not (content[-1] == "on" and len(content) == 1):
        return False
    if content[-1] in ("of", "to", "for") and len(content) > 1:
        told_of = _TELLING if content[-1] == "of" else _forms("point refer")
        return content[-2].removesuffix("s") in _MENTIONING or content[-2] in told_of
    last = next((word for word in reversed(content) if word in _TELLING or word in _ACTING), "")
    return last in _TELLING


def _owner(tokens: Sequence[str], elements: Sequence[_Element], at: int) -> _Element | None:
    """The object that follows a property as its own: "red as the colour of the circle"."""
    for element, following in pairwise(elements[at:]):
        if not _linked(tokens, element, following):
            return None
        if _is_object(following):
            return following
        if following.kind not in _PROPERTIES:
            return None
    return None


def _is_name_of(tokens: Sequence[str], first: _Element, second: _Element) -> bool:
    """Return True for what an object is called: "the object at the top left is a circle"."""
    between = [token.lower() for token in tokens[first.end : second.start]]
    is_nameless = _is_object(first) and first.value in ("", "object") and bool(first.cell)
    return is_nameless and not second.cell and bool(between) and all(word in _LINK for word in between)


def _is_spoken_of(tokens: Sequence[str], elements: Sequence[_Element], at: int) -> bool:
    """Return True for an object of which something else is told: it is no fact of its own."""
    element = elements[at]
    before, after = (elements[at - 1] if at else None), (elements[at + 1] if at + 1 < len(elements) else None)
    if after and not _is_object(after) and after.kind in (*_PROPERTIES, "relation"):
        lead = [token.lower() for token in tokens[: element.start] if token.lower() not in ("the", "a", "an")]
        is_topic = bool(lead) and lead[-1] in _TOPIC and (len(lead) < 2 or lead[-2] not in _NO_TOPIC)
        between = [token.lower() for token in tokens[element.end : after.start]]
        if _linked(tokens, element, after) or between[:2] in ([",", "which"], [",", "that"], [",", "being"]):
            return True
        if is_topic and all(word in _LINK or word == "," for word in between):
            return True
    if before and not _is_object(before) and before.kind in (*_PROPERTIES, "relation"):
        return _linked(tokens, before, element)
    return False


def _linked(tokens: Sequence[str], first: _Element, second: _Element) -> bool:
    """Return True if only words that join a property to its object stand between two elements."""
    return all(token.lower() in _LINK for token in tokens[first.end : second.start])


def _is_object(element: _Element) -> bool:
    return element.kind == "object" and element.is_named


def _phrase(element: _Element) -> str:
    where = f" at {place(element.cell)}" if element.cell else ""
    return f"{element.value or 'what is'}{where}".strip()


def _elements(tokens: Sequence[str]) -> Iterator[_Element]:
    """Elements of a sentence, in its order."""
    lowered = [token.lower() for token in tokens]
    at, pending = 0, None  # a place that stands before its object
    while at < len(tokens):
        element = _element_at(tokens, lowered, at)
        if element is None:
            at += 1
            continue
        at = element.end
        if element.kind == "object" and not element.value:
            if pending:
                yield pending
            pending = element
            continue
        if pending:
            joined = _between(lowered, pending, element) and len(lowered[pending.end : element.start]) <= _NEAR
            if joined and element.kind == "object" and element.is_named and not element.cell:
                element = element._replace(cell=pending.cell, start=pending.start)
            elif not (joined and element.kind == "word"):
                yield pending
            pending = None
        yield element
    if pending:
        yield pending


_NEAR = 5
"""Words that may stand between a place and its object."""


def _between(lowered: Sequence[str], first: _Element, second: _Element) -> bool:
    words = lowered[first.end : second.start]
    if all(word in _OF_PLACE for word in lowered[: first.start]):
        return "and" not in words
    return "and" not in words and not any(word in _TELLING - _OF_PLACE - _forms("have show hold") for word in words)


def _element_at(tokens: Sequence[str], lowered: Sequence[str], at: int) -> _Element | None:
    """The element that begins at a token; None if none does."""
    word, following = lowered[at], lowered[at + 1] if at + 1 < len(lowered) else ""
    if word in RELATIONS:
        return _Element("relation", at, at + 1, word)
    if word in _INVENTED:
        return _Element("inventions", at, at + 1 + (following in _NOUNS))
    if word in _TEXT_NOUNS or (tokens[at].isupper() and tokens[at] in WORDS):
        return _written_word(tokens, lowered, at)
    if (word in NUMBERS or word.isdecimal()) and _is_counted(following) and not _place_after(lowered, at + 2):
        return _Element("count", at, at + 2, word)
    if word in ("number", "count") or (word == "how" and following == "many"):
        rest = at + (2 if word == "how" else 1)
        more = len(list(takewhile(_is_in_count, lowered[rest:])))
        return _Element("count", at, rest + more, is_named=False)
    if word in _ASPECTS and (
        word != "shape" or following == "of" or (at and lowered[at - 1] in ("its", "whose", "what"))
    ):
        return _Element(_ASPECTS[word], at, at + 1, is_named=False)  # type: ignore[arg-type]  # values of the table
    if _is_cell(lowered, at) or word in SIZES or word in COLOURS or word in SHAPES or word in _NOUNS or word == "shape":
        return _object(lowered, at)
    return None


def _object(lowered: Sequence[str], at: int) -> _Element:
    """An object with the properties before it and the place after it; a lone place, or a lone property."""
    end, cell, properties = at, "", []
    while end < len(lowered):
        word = lowered[end]
        if word in SIZES or word in COLOURS:
            properties.append(word)
        elif _is_cell(lowered, end) and not cell and not properties:
            cell = word
        elif not (
            word in ("and", ",") and properties and lowered[end + 1 : end + 2] and lowered[end + 1] in SIZES + COLOURS
        ):
            break
        end += 1
    if end < len(lowered) and (lowered[end] in SHAPES or lowered[end] in _NOUNS or lowered[end] == "shape"):
        noun = lowered[end] if lowered[end] in SHAPES else "object"
        place = None if cell else _place_after(lowered, end + 1)
        phrase = " ".join([*properties, noun])
        return _Element(
            "object", at, place + 1 if place else end + 1, phrase, cell or (lowered[place] if place else "")
        )
    if cell:
        return _Element("object", at, at + 1, "", cell)
    return _Element("size" if lowered[at] in SIZES else "colour", at, at + 1, lowered[at])


def _place_after(lowered: Sequence[str], start: int) -> int | None:
    """Index of the place that words from `start` lead to; None if they lead to something else."""
    for at in range(start, min(start + _NEAR + 1, len(lowered))):
        if _is_cell(lowered, at):
            return at
        if lowered[at] not in _OF_PLACE and lowered[at] not in _PICTURE:
            return None
    return None


def _is_cell(lowered: Sequence[str], at: int) -> bool:
    """Return True for a place: "the right number" and "is right" name none."""
    word = lowered[at]
    if word not in CELLS:
        return False
    if word not in ("left", "right"):
        return True
    before = lowered[at - 1] if at else ""
    return before not in ("is", "are", "be") and (at + 1 >= len(lowered) or lowered[at + 1] not in _NOT_PLACES)


def _is_counted(word: str) -> bool:
    return word in _NOUNS or word.removesuffix("s") in SHAPES


def _is_in_count(word: str) -> bool:
    return word in ("of", "the") or word in SIZES or word in COLOURS or _is_counted(word)


def _written_word(tokens: Sequence[str], lowered: Sequence[str], at: int) -> _Element:
    """A word of the picture, with the place where it is written."""
    end = at + 1
    value = tokens[at] if tokens[at].isupper() else ""
    if not value and end < len(tokens) and (tokens[end].isupper() or tokens[end].upper() in WORDS):
        value = tokens[end].upper()
        end += 1
    leading = _words("is written drawn at in on the reads")
    while end < len(tokens) and lowered[end] in leading:
        end += 1
        if end < len(tokens) and _is_cell(lowered, end):
            end += 1
            break
    return _Element("word", at, end, value, is_named=bool(value))
