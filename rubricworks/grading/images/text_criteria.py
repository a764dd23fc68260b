"""Criteria about text in an image, decided by reading it: the words in quotes must be there, letter by letter.

A reader cannot be instructed by the image's text, and it spells better than a judge that expects a word. Only criteria
of the key `ocr_alignment` with quoted words and no negation are decided here; all others are the judge's.
"""

import re
from collections.abc import Sequence

from rubricworks.grading.images.prompts import Credits
from rubricworks.grading.images.text_reading import TextRegion, text_similarity
from rubricworks.rubrics import Criterion, Verdict

TEXT_KEY = "ocr_alignment"
"""Key of criteria about text in the image (RubricRL, section 3.2)."""
_QUOTED = re.compile(
    r"\"([^\"]+)\"|“([^”]+)”|«([^»]+)»|「([^」]+)」|『([^』]+)』|(?<!\w)['\u2018]([^'\u2019]+)['\u2019](?!\w)"
)
_NEGATION = re.compile(
    r"\b(?:no|not|none|never|nothing|without|absent|missing|free of|\w+n['\u2019]t)\b", re.IGNORECASE
)
_MAX_WORDS = 200
"""Words of an image that are compared; a page of print has more, and then the first ones count."""


def quoted_texts(criterion: Criterion) -> tuple[str, ...]:
    """Texts that the image must show for the criterion; none if a reader cannot decide it."""
    text = criterion.criterion
    if criterion.key != TEXT_KEY or _NEGATION.search(_QUOTED.sub("", text)):
        return ()
    quotes = (next(group for group in match.groups() if group is not None).strip() for match in _QUOTED.finditer(text))
    return tuple(quote for quote in quotes if any(letter.isalnum() for letter in quote))


def text_verdict(criterion: Criterion, regions: Sequence[TextRegion], credits: Credits = "binary") -> Verdict:
    """Verdict on a criterion with quoted texts, all of which must be in the image.

    Binary credit is 1 if each text equals a run of the words that were read, once case, punctuation, spaces and the
    form of Chinese characters are set aside; continuous credit is the likeness of the worst text.
    """
    likeness = [(best_match(text, regions), text) for text in quoted_texts(criterion)]
    (similarity, closest), text = min(likeness, key=lambda pair: pair[0][0])
    credit = similarity if credits == "continuous" else float(similarity == 1)
    shown = " / ".join(region.text for region in regions)
    reasoning = f"The reader finds no text, and {text!r} is asked for."
    if regions:
        reasoning = f"The reader finds {shown[:300]!r}; the closest to {text!r} is {closest!r} ({similarity:.2f})."
    call = f"text_verify(predict={closest!r})"
    return Verdict(criterion=criterion.criterion, credit=credit, reasoning=reasoning, call=call)


def best_match(text: str, regions: Sequence[TextRegion]) -> tuple[float, str]:
    """Likeness of the closest run of words in the regions to a text, and the run; (0, "") without regions."""
    words = [word for region in regions for word in region.text.split()][:_MAX_WORDS]
    longest = len(text.split()) + 1
    runs = (
        " ".join(words[start : start + length])
        for length in range(1, longest + 1)
        for start in range(len(words) - length + 1)
    )
    # A reader may split a word, or a script without spaces, over several regions.
    runs_and_all = [*runs, " ".join(words)] if words else []
    return max(((text_similarity(run, text), run) for run in runs_and_all), default=(0.0, ""))
