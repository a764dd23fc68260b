"""Synonyms of a word in WordNet 3.0, read from the database files of its distribution.

The files are those of wndb(5WN): `index.POS` maps lower-case lemmas to synsets, `data.POS` lists the words of a synset
at the synset's byte offset, `POS.exc` maps irregular forms to base forms. A folder with them comes with Debian's
package `wordnet-base`, with WordNet's own distribution (`dict`) and with NLTK's corpus `wordnet`. Inflected forms are
reduced as by NLTK's `wordnet.synsets`, so that the synonyms are the ones that NLTK users get.
"""

import os
import re
from functools import cache, lru_cache
from pathlib import Path

from rubricworks.errors import UserError

_FOLDERS = (
    *("/usr/share/wordnet", "~/nltk_data/corpora/wordnet", "/usr/share/nltk_data/corpora/wordnet"),
    *("/usr/local/share/nltk_data/corpora/wordnet", "/usr/lib/nltk_data/corpora/wordnet"),
)
_SUFFIXES = {
    "noun": (
        *(("s", ""), ("ses", "s"), ("ves", "f"), ("xes", "x"), ("zes", "z")),
        *(("ches", "ch"), ("shes", "sh"), ("men", "man"), ("ies", "y")),
    ),
    "verb": (
        *(("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", "")),
        *(("ing", "e"), ("ing", "")),
    ),
    "adj": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "adv": (),
}
"""Part of speech → endings of inflected forms and what replaces them in the base form."""
_MARKER = re.compile(r"\([^()]*\)$")
"""Syntactic marker of an adjective, as in `ill(p)`."""


def synonyms(word: str) -> frozenset[str]:
    """All words of all synsets of a word, itself among them; empty if WordNet does not have it.

    Args:
        word: in any case, a phrase with underscores between its words.
    Raises:
        UserError: WordNet's files are not on this machine.
    """
    return _synonyms(_folder(), word.lower())


@lru_cache(maxsize=100_000)
def _synonyms(folder: Path, word: str) -> frozenset[str]:
    return frozenset(
        name
        for pos in _SUFFIXES
        for form in _base_forms(folder, pos, word)
        for offset in _index(folder, pos)[form]
        for name in _synset(folder, pos, offset)
    )


def _folder() -> Path:
    chosen = os.environ.get("WNSEARCHDIR")
    for folder in (chosen,) if chosen else _FOLDERS:
        path = Path(folder).expanduser()
        if (path / "index.noun").is_file():
            return path
    raise UserError(
        f"WordNet 3.0 is not in {chosen or _FOLDERS[0]}; install it (Debian: wordnet-base) or set WNSEARCHDIR to the "
        "folder of its index.noun"
    )


def _base_forms(folder: Path, pos: str, word: str) -> list[str]:
    forms = _exceptions(folder, pos).get(word)
    if forms is None:
        endings = _SUFFIXES[pos]
        forms = [word[: len(word) - len(old)] + new for old, new in endings if word.endswith(old)]
    return [form for form in dict.fromkeys([word, *forms]) if form in _index(folder, pos)]


@cache
def _index(folder: Path, pos: str) -> dict[str, tuple[int, ...]]:
    """Lemma → byte offsets of its synsets."""
    index = {}
    for line in (folder / f"index.{pos}").read_text(encoding="utf-8").splitlines():
        if not line.startswith(" "):  # a line of the licence
            lemma, _, count, *rest = line.split()
            index[lemma] = tuple(map(int, rest[-int(count) :]))
    return index


@cache
def _exceptions(folder: Path, pos: str) -> dict[str, list[str]]:
    """Irregular form → base forms."""
    lines = (line.split() for line in (folder / f"{pos}.exc").read_text(encoding="utf-8").splitlines())
    return {form: bases for form, *bases in lines}


@cache
def _data(folder: Path, pos: str) -> bytes:
    return (folder / f"data.{pos}").read_bytes()


def _synset(folder: Path, pos: str, offset: int) -> list[str]:
    """Words of the synset at a byte offset: `offset file type count (word id)… …`, the count in hexadecimal."""
    data = _data(folder, pos)
    fields = data[offset : data.index(b"\n", offset)].decode("utf-8").split()
    return [_MARKER.sub("", word) for word in fields[4 : 4 + 2 * int(fields[3], 16) : 2]]
