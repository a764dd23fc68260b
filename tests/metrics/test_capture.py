"""CAPTURE against multisets counted by hand, its bounds, and synonyms in a WordNet of four synsets."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.errors import UserError
from rubricworks.metrics import capture_score, synonym_score
from rubricworks.metrics.wordnet import synonyms

WORDS = ["dog", "cat", "tree", "sky"]
words = st.sampled_from(WORDS)
graphs = st.tuples(
    st.lists(words, max_size=5),
    st.dictionaries(words, st.lists(words, max_size=3), max_size=3),
    st.lists(st.tuples(words, st.sampled_from(["on", "near"]), words), max_size=3),
)
AXES = {word: [float(place == axis) for axis in range(4)] for place, word in enumerate(WORDS)}


def phrases(graph: tuple) -> dict[str, Counter]:
    objects, attributes, relations = graph
    return {
        "obj": Counter(objects),
        "attr": Counter(word for row in attributes.values() for word in row),
        "rel": Counter(relations),
    }


@given(graphs, graphs)
def test_matches_are_the_common_part_of_both_multisets(gt, cand):
    score = capture_score(gt, cand)
    for part, of_gt in phrases(gt).items():
        of_cand = phrases(cand)[part]
        common = (of_gt & of_cand).total()
        assert score[f"{part}_p"] == pytest.approx(common / (of_cand.total() + 1e-6))
        assert score[f"{part}_r"] == pytest.approx(common / (of_gt.total() + 1e-6))


@given(graphs, graphs)
def test_sides_swap_precision_and_recall(gt, cand):
    forward, back = capture_score(gt, cand), capture_score(cand, gt)
    assert forward["capture"] == pytest.approx(back["capture"])
    assert [forward[f"{part}_p"] for part in ("obj", "attr", "rel")] == [
        back[f"{part}_r"] for part in ("obj", "attr", "rel")
    ]
    assert all(0 <= value <= 1 for value in forward.values())


def test_equal_graphs_with_all_three_parts_score_nearly_one():
    graph = [["dog"], {"dog": ["large"]}, [["dog", "on", "dog"]]]
    assert capture_score(graph, graph)["capture"] == pytest.approx(1, abs=1e-5)


@given(graphs, graphs)
def test_vectors_at_right_angles_change_nothing(gt, cand):
    gt, cand = (*gt[:2], []), (*cand[:2], [])
    hard, soft = capture_score(gt, cand), capture_score(gt, cand, synonyms=False, vectors=AXES)
    # What greedy matching leaves on one side has no word of what it leaves on the other.
    assert soft == pytest.approx(hard)


def test_opposite_vector_lowers_the_score_and_its_length_does_not_matter():
    gt, cand = [["dog", "tree"], {}, []], [["dog", "cat"], {}, []]
    score = capture_score(gt, cand, synonyms=False, vectors={"cat": [-3.0, 0.0], "tree": [0.5, 0.0]})
    assert score["obj_p"] == pytest.approx(0, abs=1e-6)


def test_relation_is_looked_up_as_one_phrase_and_a_missing_one_is_named():
    gt, cand = [[], {}, [["dog", "on", "sky"]]], [[], {}, [["cat", "on", "sky"]]]
    score = capture_score(gt, cand, synonyms=False, vectors={"dog on sky": [1.0, 0.0], "cat on sky": [0.6, 0.8]})
    assert score["rel_f1"] == pytest.approx(0.6, abs=1e-5)
    with pytest.raises(ValueError, match="no entry for 'cat on sky'"):
        capture_score(gt, cand, synonyms=False, vectors=AXES)


SYNSETS = {
    "noun": [["dog", "domestic_dog", "Canis_familiaris"], ["pooch", "dog"], ["sofa"]],
    "verb": [["go", "travel"]],
    "adj": [["ill(p)", "sick"]],
    "adv": [],
}


@pytest.fixture
def small_wordnet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """WordNet's files, wndb(5WN), of a few synsets."""
    for pos, synsets in SYNSETS.items():
        data, index = "  1 This software and database is being provided to you\n", {}
        for synset in synsets:
            for word in synset:
                index.setdefault(word.lower().split("(")[0], []).append(f"{len(data):08}")
            rows = " ".join(f"{word} 0" for word in synset)
            data += f'{len(data):08} 05 {pos[0]} {len(synset):02x} {rows} 001 @ 00001740 n 0000 | a gloss; "so"  \n'
        (tmp_path / f"data.{pos}").write_text(data)
        lines = [f"{word} {pos[0]} {len(at)} 1 @ {len(at)} 0 {' '.join(at)}  \n" for word, at in sorted(index.items())]
        (tmp_path / f"index.{pos}").write_text("  1 This software\n" + "".join(lines))
        (tmp_path / f"{pos}.exc").write_text("went go\n" if pos == "verb" else "")
    monkeypatch.setenv("WNSEARCHDIR", str(tmp_path))


@pytest.mark.usefixtures("small_wordnet")
@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("dog", {"dog", "domestic_dog", "Canis_familiaris", "pooch"}),
        ("Sofas", {"sofa"}),
        ("went", {"go", "travel"}),
        ("ill", {"ill", "sick"}),
        ("car", set()),
    ],
)
def test_synonyms_are_the_words_of_all_synsets_of_the_base_form(word, names):
    assert synonyms(word) == names


@pytest.mark.usefixtures("small_wordnet")
def test_score_of_synonyms_is_their_overlap_and_a_part_of_a_word_is_one():
    assert synonym_score("pooch", "domestic dog") == pytest.approx(1 / 4, abs=1e-5)
    assert synonym_score("cat", "caterpillar") == 1
    assert synonym_score("sofa", "pooch") == 0


@pytest.mark.usefixtures("small_wordnet")
def test_synonyms_match_what_equality_leaves():
    gt = [["dog", "sofa"], {}, [["dog", "on", "sofa"]]]
    cand = [["pooch", "sofa"], {}, [["pooch", "on", "sofa"]]]
    assert capture_score(gt, cand)["obj_p"] == pytest.approx(0.5, abs=1e-5)
    score = capture_score(gt, cand, synonyms=True)
    assert (score["obj_p"], score["rel_r"]) == pytest.approx((1, 1), abs=1e-5)


def test_missing_wordnet_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("WNSEARCHDIR", str(tmp_path))
    with pytest.raises(UserError, match=rf"not in {tmp_path}; install it \(Debian: wordnet-base\)"):
        capture_score([["dog"], {}, []], [["cat"], {}, []], synonyms=True)
