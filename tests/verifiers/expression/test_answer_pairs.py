"""The generator of answer pairs: what it covers, and that its truth is true."""

from collections import Counter

from answer_pairs import KINDS, Pair, pairs

SAMPLE: list[Pair] = list(pairs(2600, seed=11))


def test_the_same_seed_gives_the_same_pairs_and_another_seed_others():
    assert list(pairs(100, seed=11)) == SAMPLE[:100]
    assert [pair.predict for pair in pairs(100, seed=12)] != [pair.predict for pair in SAMPLE[:100]]


def test_every_kind_has_as_many_equal_pairs_as_unequal_ones():
    assert Counter((pair.kind, pair.equal) for pair in SAMPLE) == {
        (kind, equal): 100 for kind in KINDS for equal in (True, False)
    }
