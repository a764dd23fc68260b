"""The value that a sentence or a worked solution states: `So the area is 12 cm².`, `Thus $x=\\boxed{5}$.`

The last thing said counts: a final answer before a box, a box before the last sentence. A value counts where the words
state it (`is`, `=`, `:`, a box) without a doubt (`not`, `maybe`, `if`); what cannot be read as a value whole, as
`less than 5`, stays a text that equals itself only.
"""

import re

from rubricworks.verifiers.expression.numerals import in_digits
from rubricworks.verifiers.expression.reading import read_answer
from rubricworks.verifiers.expression.surface import boxes, plain_characters, strip_surface
from rubricworks.verifiers.expression.values import Word
from rubricworks.verifiers.expression.words import BOUNDS, DOUBTS, is_doubted

_COMMAND = re.compile(r"\\(?:begin|end)\s*\{[a-zA-Z*]+\}|\\[A-Za-z]+")
_MATHEMATICAL = """
sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln exp lim max min gcd lcm det mod sqrt asin acos atan
and or dx dy dz dt
"""
_ENGLISH = """
not nor is are was the to of if at by but for all any one two six ten per out off up as we it its so than in on from may
can low few some an half most less more over ago yet then else who how why yes pct
"""
_MATHEMATICAL_WORDS, _SHORT_WORDS = set(_MATHEMATICAL.split()), set(_ENGLISH.split())
_VOWEL = re.compile(r"[aeiou]", re.IGNORECASE)
_MATHEMATICS = re.compile(r"[\d\\^_=+*/<>|()\[\]!-]")
_NO_FORM = re.compile(r'[?"@#~$]|\\(?:boxed|fbox)')
_NAME = re.compile(r"[^\W\d_]+(?:['.-][^\W\d_]*)*(?:\s+[^\W\d_]+(?:['.-][^\W\d_]*)*)*")
_LONGEST_FORM, _LONGEST_NAME = 1000, 4
"""Characters, and words."""

_THOUGHTS = re.compile(r"<think>.*?</think>", re.DOTALL | re.IGNORECASE)
_ANSWER_TAG = re.compile(r"<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE)
_END_OF_TURN = re.compile(r"<\|im_(?:start|end)\|>.*", re.DOTALL)
_HOPE = re.compile(r"I hope(?: (?:it|this) is correct| this helps)?[.!]?", re.IGNORECASE)
_MARKDOWN = re.compile(r"\*\*|^(?:#{1,6}\s+|[>\s]+)+", re.MULTILINE)
_POWER = re.compile(r"(?<=[\w)\]}])\*\*(?=[\w({\\-])")
_DISPLAY = re.compile(r"\$\$.*?\$\$|\\\[.*?\\\]|\\begin\{(\w+)\}.*?\\end\{\1\}", re.DOTALL)
_DOUBLED_BACKSLASH = re.compile(r"\\\\(?=[A-Za-z])")
_FINAL_ANSWER = re.compile(r"final answer\b\W{0,3}?(?:is)?\s*[:=]?\s*", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=\S)|\n+")
_ABBREVIATION = re.compile(r"\b(?:[a-z]\.m|e\.g|i\.e|approx|vs|no|ca|[A-J])\.$", re.IGNORECASE)
_CUT_OFF = re.compile(r"\s+\w?\.{2,}$")

_OPEN_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_BETWEEN_BOXES = re.compile(r"[,;]|\band\b|\bor\b")
_CLOSE, _NEAR = 10, 70
"""Characters between boxes that belong together; the more with a comma, `and` or `or` among them."""
_SCALE_AFTER_BOX = re.compile(
    r"[\s$)\]]*(\\?%|(?:percent|pct|per cent|hundred|thousand|million|billion|trillion|dozen)\b)", re.IGNORECASE
)
_CONTINUED = re.compile(r"[\s$]*[-+*/^]\s*(?:[\d\\(]|[A-Za-z](?![A-Za-z]))")
"""The box holds a part of the value."""
_CORRECTION = re.compile(r"^\s*or\b|\bno\b", re.IGNORECASE)
"""Words before a box that take back what stood before them, not the box."""
_BOUND_BEFORE_BOX = re.compile(
    r"\b(?:at least|at most|(?:more|less|fewer|greater|smaller|larger|higher|lower) than|up to|over|under|nearly"
    r"|almost)[\s$\\(\[]*$",
    re.IGNORECASE,
)
_TAKEN_BACK = re.compile(
    r"[\s$)\]},;.]*(?:\?|\b(?:or|maybe|perhaps|but|if|unless|possibly|probably|wait|actually|hmm|however|sorry|oops|let\s+me|let's|correction|no(?=[,:.])|i\s+made)\b"
    r"|(?:that|this|it)(?:'s|\s+is|\s+was)\s+(?:not|wrong|incorrect|false|an?\s+error)\b"
    r"|(?:is|was)\s+(?:not|wrong|incorrect|false)\b)",
    re.IGNORECASE,
)

_CLAUSE_END = re.compile(r"[,;.:\n]|\b(?:since|because|as|where|which|when)\b")

_MATHEMATICS_IN_DOLLARS = re.compile(r"(?<![\\$])\$(?=\S)([^$]*[^\s$\\])\$(?![\d$])")
_DELIMITER = re.compile(r"(?<!\\)\$\$|\\[()\[\]]|(?<!\\)\$(?!\s?\d[\d.,]*+(?:\s+(?![-<>=+*/^\\])|$))|(?<=[\d.\s])\$$")
"""Signs around mathematics; before a plain number a dollar sign may mean dollars."""
_LEAD_IN = re.compile(
    r"(?:(?:so|thus|hence|therefore|then|now|finally|consequently|in\s+conclusion|we|the|final|answer|answers|ans"
    r"|result|solution|value|get|have|find|is|are|be|that|and|well|ok|okay|yes|(?:i|an?)(?=\s+(?!(?:in|and|or)\b)[a-z]{2}))\b"
    r"(?:[\s,:]|\.(?!\d))*)+",
    re.IGNORECASE,
)
_STATES = re.compile(
    r"""\b(?:(?:is|are|was|were)(?:\s+at(?=\s+\())?|be|equal(?:s|\s+to)?|gives?|yields?|makes?|totals?|measures?|costs?|becomes?|gets?
    |obtains?|find|that|namely|contains?|includes?|has|have|had|shows?|displays?|depicts?|counts?|counted|sees?|holds?
    |needs?|takes?|earns?|pays?|weighs?|lasts?|leaves?|(?:in|de)creases?\s+by|answer|result|it's|that's|there's)\s+
    |(?<=[a-z]{2}\s)\$?\d[\d\s.,()$]*[-+*/][-\d\s.,+*/()$]*=\s*|(?<![\d:]):\s+|(?<=[A-Za-z)])\s*:\s+|=>|\\Rightarrow|\\implies""",
    re.IGNORECASE | re.VERBOSE,
)
_IS_THE_ANSWER = re.compile(
    r"\s+(?:is|are)\s+(?:(?:the|our|my|your)\s+)?(?:(?:final|correct|right|only)\s+)?"
    r"(?:answers?|solutions?|results?|values?|options?|choices?|one|correct|right)$",
    re.IGNORECASE,
)
_REASON = re.compile(
    r"\s*,?\s*\b(?:because|since|given that|as required|as desired|where|in (?:total|all)|altogether|every \w+$)\b.*",
    re.IGNORECASE | re.DOTALL,
)
_THERE_ARE = re.compile(
    r"\bthere\s+(?:are|is|were|was)\s+(?:exactly\s+|only\s+)?(?P<count>\d[\d,]*)(?P<things>(?:\s+[a-z]+){1,5}?)"
    r"(?:\s+(?:that|which|who|in|on|with|such|satisfying)\b.*)?$",
    re.IGNORECASE,
)
_NUMERAL = re.compile(r"\d[\d,]*(?:\.\d+)?")


def stated_value(text: str) -> str | None:
    """The text of the value that is stated last, None if none is stated or if it is doubted.

    >>> stated_value("The total is 12, so each has 4 apples."), stated_value("It might be 3.")
    ('4 apples', None)
    """
    text = _clean(text)
    if final := list(_FINAL_ANSWER.finditer(text)):
        sentences = _sentences(text[final[-1].end() :])
        if sentences and not _OPEN_BOX.search(sentences[0]) and re.search(r"[\w\\]", sentences[0]):
            return _sentence_value(sentences[0], is_final=True)
    return _boxed_value(text) if _OPEN_BOX.search(text) else _last_sentence_value(text)


def is_readable(text: str) -> bool:
    """Return True if a text as a whole is a value: one that is read, or a formula that equals its own form."""
    answer = read_answer(text)
    return is_form(text) if answer is None or (isinstance(answer, Word) and answer.phrase) else True


def is_form(text: str) -> bool:
    """Return True if a text is mathematics without a sentence, its brackets closed."""
    body = strip_surface(text).body
    if len(body) > _LONGEST_FORM or not _MATHEMATICS.search(body) or _NO_FORM.search(body) or not is_closed(body):
        return False
    return not any(map(_is_english, re.findall(r"[A-Za-z]{2,}", _COMMAND.sub(" ", body))))


def is_name(text: str) -> bool:
    """Return True for a few words without a number that state nothing: `Mount Everest`."""
    body = strip_surface(text).body
    return len(body.split()) <= _LONGEST_NAME and _NAME.fullmatch(body) is not None and not _STATES.search(f"{body} ")


def is_closed(body: str) -> bool:
    """Return True if every bracket is closed; an interval's may be of two kinds."""
    depths = {"{": 0, "(": 0}
    for character in body:
        if character in "([{":
            depths["{" if character == "{" else "("] += 1
        elif character in ")]}":
            depths["{" if character == "}" else "("] -= 1
        if min(depths.values()) < 0:
            return False
    return not any(depths.values())


def _is_english(word: str) -> bool:
    if word.lower() in _MATHEMATICAL_WORDS or (len(word) == 2 and word.isupper()):
        return False
    return len(word) > 3 or word.lower() in _SHORT_WORDS or (len(word) == 3 and _VOWEL.search(word) is not None)


def _clean(text: str) -> str:
    text = _END_OF_TURN.sub("", _THOUGHTS.sub("", plain_characters(text)))
    tags = _ANSWER_TAG.findall(text)
    text = (tags[-1] if tags else text).replace('\\"', '"')
    if "\\\\" in text and "\\begin" not in text:
        text = _DOUBLED_BACKSLASH.sub(r"\\", text)
    text = _POWER.sub("^", text)
    text = _DISPLAY.sub(lambda block: block[0].replace("\n", " "), text)
    return _HOPE.sub("", _MARKDOWN.sub("", text)).strip()


def _sentences(text: str) -> list[str]:
    sentences: list[str] = []
    for part in _SENTENCE_END.split(text):
        if sentences and _ABBREVIATION.search(sentences[-1][-12:]):
            sentences[-1] += f" {part}"
        elif part.strip():
            sentences.append(part.strip())
    return sentences


def _boxed_value(text: str) -> str | None:
    every = boxes(text)
    if not every:  # never closed
        return "\\boxed{" + _OPEN_BOX.split(text)[-1].splitlines()[0] + "}"
    group = [every.pop()]
    while every:
        between = text[every[-1].end : group[0].start]
        if len(between) >= _CLOSE and not (len(between) < _NEAR and _BETWEEN_BOXES.search(between)):
            break
        group.insert(0, every.pop())
    before, after = text[: group[0].start], text[group[-1].end :]
    lead = re.split(r"[,;]\s|[.!?:]\s|\n", before)[-1]
    same_clause = _CLAUSE_END.split(strip_surface(after[:_NEAR]).body)[0]
    if is_doubted(_CORRECTION.sub("", lead)) or _BOUND_BEFORE_BOX.search(lead) or _TAKEN_BACK.match(after):
        return None
    if is_doubted(same_clause):
        return None
    contents = list(dict.fromkeys(box.content.replace("$", " ") for box in group))
    if len(contents) > 1:
        return f"\\boxed{{{', '.join(contents)}}}"
    if _CONTINUED.match(after) or before.endswith(("+", "*", "/", "^", "\\times ", "\\cdot ")):
        return None
    sign, scale = "-" if before.endswith("-") else "", _SCALE_AFTER_BOX.match(after)
    return f"\\boxed{{{sign}{contents[0]}{' ' + scale[1] if scale else ''}}}"


def _last_sentence_value(text: str) -> str | None:
    """The value of the last sentence with a number or a formula, or of the last one if none has."""
    sentences = _sentences(text)
    if not sentences:
        return None
    at = len(sentences) - 1
    while at > 0 and not re.search(r"[\d\\$]", in_digits(sentences[at])):
        at -= 1
    if any(DOUBTS.search(later) or "?" in later for later in sentences[at + 1 :]):
        return None
    return _sentence_value(sentences[at])


def _sentence_value(sentence: str, *, is_final: bool = False) -> str | None:
    sentence = _CUT_OFF.sub("", sentence).strip()
    sentence = sentence if sentence.endswith("...") else sentence.rstrip(".,;!")
    if sentence.endswith("?"):
        return None
    plain = _DELIMITER.sub(" ", _MATHEMATICS_IN_DOLLARS.sub(r" \1 ", sentence)).strip()
    whole = _IS_THE_ANSWER.sub("", plain)
    whole = (whole[lead_in.end() :] or whole) if (lead_in := _LEAD_IN.match(whole)) else whole
    stated = list(_STATES.finditer(plain))
    lead, remainder = (plain[: stated[-1].start()], plain[stated[-1].end() :]) if stated else ("", "")
    remainder = _REASON.sub("", remainder).strip()
    for value, before in ((whole, ""), (remainder, lead)):
        if value and is_readable(value) and not is_doubted(before):
            return value
    in_numerals = in_digits(plain)
    there_are = _THERE_ARE.search(in_numerals)
    if there_are and not BOUNDS.search(there_are["things"]) and not is_doubted(in_numerals[: there_are.start()]):
        return there_are["count"]
    numbers = _NUMERAL.findall(in_numerals)
    if is_final and len(numbers) == 1 and not BOUNDS.search(plain) and not DOUBTS.search(plain):
        return str(numbers[0])
    return None if is_doubted(lead) else remainder or whole
