"""CAPTURE: F1 of the objects, attributes and relations of two scene graphs (foundation-multimodal-models/CAPTURE).

Phrases match greedily, in the order of the lists. Equal phrases match first. If synonyms are given, phrases match next
if one contains the other ("cat" and "caterpillar") or both share a WordNet synonym. If vectors are given, each
unmatched phrase adds its cosine with the nearest unmatched phrase of the other side; a negative cosine lowers the
score. Attributes match as one list over all objects. Every denominator carries 1e-6. The score is (0.5 object F1 + 0.5
attribute F1 + 0.2 relation F1) / 1.2. A scene graph comes from a parser of the caller's choice; the paper uses
FACTUAL's.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rubricworks.metrics.wordnet import synonyms as wordnet_synonyms

Graph = Sequence[Any]
"""[objects, {object: attributes}, relations], a relation being [subject, relation, object]."""
Vectors = Mapping[str, Sequence[float]]
Phrase = tuple[str, ...]
"""An object or an attribute alone, or the three parts of a relation."""

_WEIGHTS = {"obj": 0.5, "attr": 0.5, "rel": 0.2}
_EPS = 1e-6


def capture_score(
    gt: Graph, cand: Graph, *, synonyms: bool | None = None, vectors: Vectors | None = None
) -> dict[str, float]:
    """CAPTURE of a candidate's scene graph against a reference's.

    Args:
        gt: graph of the reference: [objects, {object: attributes}, relations], a relation being [subject, relation,
            object].
        cand: graph of the candidate, of the same form.
        synonyms: match also by containment and by WordNet 3.0, the reference code's `synonym_matching`. By default only
            with vectors, since CAPTURE as published has both.
        vectors: phrase → embedding, for the reference code's `soft_matching`; without it there is none. Phrases are
            objects, attributes, and relations with a space between their parts; only those without another match are
            looked up.
    Returns:
        `capture`, then precision, recall and F1 of each part: `obj_p`, `obj_r`, `obj_f1`, `attr_p`, …, `rel_f1`.
    Raises:
        ValueError: `vectors` has no entry for a phrase.
        UserError: WordNet, which synonyms need, is not on this machine.
    """
    if synonyms is None:
        synonyms = vectors is not None
    parts: dict[str, float] = {}
    total = 0.0
    for part, cand_phrases, gt_phrases in zip(_WEIGHTS, _phrase_lists(cand), _phrase_lists(gt), strict=True):
        cand_matches, gt_matches = _matches(cand_phrases, gt_phrases, synonyms, vectors)
        precision, recall = cand_matches / (len(cand_phrases) + _EPS), gt_matches / (len(gt_phrases) + _EPS)
        f1 = 2 * precision * recall / (precision + recall + _EPS)
        parts |= {f"{part}_p": precision, f"{part}_r": recall, f"{part}_f1": f1}
        total += _WEIGHTS[part] * f1
    return {"capture": total / sum(_WEIGHTS.values()), **parts}


def synonym_score(a: str, b: str) -> float:
    """1 if one phrase contains the other, else the overlap of their WordNet synonyms (intersection over union).

    Raises:
        UserError: WordNet is not on this machine.
    """
    if a in b or b in a:
        return 1.0
    first, second = (wordnet_synonyms("_".join(phrase.split())) for phrase in (a, b))
    return len(first & second) / (len(first | second) + _EPS)


def _phrase_lists(graph: Graph) -> tuple[list[Phrase], list[Phrase], list[Phrase]]:
    """Objects, attributes of all objects, relations."""
    objects, attributes, relations = graph
    return (
        [(name,) for name in objects],
        [(attribute,) for row in attributes.values() for attribute in row],
        [tuple(relation) for relation in relations],
    )


def _matches(
    cand: Sequence[Phrase], gt: Sequence[Phrase], synonyms: bool, vectors: Vectors | None
) -> tuple[float, float]:
    """Matches of the candidate's phrases and of the reference's; unequal only by soft ones."""
    cand_left, gt_left = _unmatched(cand, gt, lambda a, b: a == b)
    if synonyms:
        cand_left, gt_left = _unmatched(cand_left, gt_left, _are_synonyms)
    pairs = float(len(cand) - len(cand_left))
    if vectors is None or not cand_left or not gt_left:
        return pairs, pairs
    cosines = _unit_vectors(cand_left, vectors) @ _unit_vectors(gt_left, vectors).T
    return pairs + float(cosines.max(axis=1).sum()), pairs + float(cosines.max(axis=0).sum())


def _unmatched(
    cand: Sequence[Phrase], gt: Sequence[Phrase], agree: Callable[[Phrase, Phrase], bool]
) -> tuple[list[Phrase], list[Phrase]]:
    """Pair each phrase of the candidate with the first free one of the reference that agrees; return those left."""
    cand_left, gt_left = [], list(gt)
    for phrase in cand:
        position = next((position for position, other in enumerate(gt_left) if agree(phrase, other)), None)
        if position is None:
            cand_left.append(phrase)
        else:
            del gt_left[position]
    return cand_left, gt_left


def _are_synonyms(a: Phrase, b: Phrase) -> bool:
    return all(synonym_score(first, second) > 0 for first, second in zip(a, b, strict=True))


def _unit_vectors(phrases: Sequence[Phrase], vectors: Vectors) -> NDArray[np.float64]:
    texts = [" ".join(phrase) for phrase in phrases]
    if missing := [text for text in texts if text not in vectors]:
        raise ValueError(f"vectors has no entry for {missing[0]!r}")
    rows = np.array([vectors[text] for text in texts], np.float64)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    units: NDArray[np.float64] = np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)
    return units
