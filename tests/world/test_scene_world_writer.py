"""RubiCap's three steps on hand-made captions: consensus, deficiencies, weighted criteria; guards on request."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubricworks.rubrics import Criterion, Rubric
from rubricworks.world.models.captioners import TEACHERS, teacher_caption
from rubricworks.world.models.writer import (
    WriterTask,
    lenient_rubric_writer_reply,
    read_task,
    rubric_writer_reply,
    write_rubric,
)
from rubricworks.world.scene.captions import write_caption
from rubricworks.world.scene.oracle import score_caption
from rubricworks.world.scene.parsing import Mention
from rubricworks.world.scene.rules import (
    GivesCount,
    HasAttribute,
    NamesExactly,
    NamesNothingAt,
    NamesObject,
    NamesOnly,
    ReadsNoWord,
    ReadsWord,
    Rule,
    holds,
    noun_phrase,
    parse_rule,
    write_rule,
)
from rubricworks.world.scene.scene import CELLS, COLOURS, SHAPES, SIZES, WORDS, generate_scene

CANDIDATES = {
    "Model 1": "at top-left a big red circle . at center a small blue square . the word CAT .",
    "Model 2": "there is a big red circle at the top left . there is a small blue square at the center .",
    "Model 3": "a big purple circle sits at the top left . a small blue square sits at the center . the word CAT .",
    "Model 4": "at top-left a big red circle . at right a big green star . the word CAT .",
    "Model 5": "at top-left a small red circle . at center a big blue square . the word SUN .",
}


def rubric_for(
    *students: str, coverage: str = "full", guards: bool = False, threshold: int = 3, lenient: bool = False
) -> dict[str, dict]:
    rubric = write_rubric(WriterTask(students, CANDIDATES, threshold, coverage, guards), lenient=lenient)
    return {str(row["evaluation_rule"]).split(". ")[0]: row for row in rubric}


def rules_for(*students: str, **options: object) -> list[Rule | None]:
    return [parse_rule(str(row["evaluation_rule"])) for row in rubric_for(*students, **options).values()]


def test_consensus_needs_the_threshold_and_disputed_values_lose():
    rules = {parse_rule(str(row["evaluation_rule"])) for row in rubric_for("").values()}
    assert rules == {
        NamesObject("top-left", "circle"),
        HasAttribute("top-left", "red"),
        HasAttribute("top-left", "big"),
        NamesObject("center", "square"),
        HasAttribute("center", "blue"),
        HasAttribute("center", "small"),
        ReadsWord("CAT"),
    }


def test_lower_threshold_lets_less_agreed_elements_in_and_the_majority_value_wins():
    rules = {parse_rule(str(row["evaluation_rule"])) for row in rubric_for("", threshold=1).values()}
    assert NamesObject("right", "star") in rules
    assert HasAttribute("top-left", "red") in rules
    assert HasAttribute("top-left", "purple") not in rules


def test_references_are_the_candidates_that_state_it():
    rows = rubric_for("")
    by_rule = {parse_rule(rule + "."): row["reference_teachers"] for rule, row in rows.items()}
    assert by_rule[HasAttribute("top-left", "red")] == ["Model 1", "Model 2", "Model 4", "Model 5"]
    assert by_rule[ReadsWord("CAT")] == ["Model 1", "Model 3", "Model 4"]


def test_weights_are_critical_important_or_minor_by_level():
    weights = {parse_rule(str(row["evaluation_rule"])): row["weight"] for row in rubric_for("", guards=True).values()}
    assert weights[NamesObject("top-left", "circle")] == 3
    assert weights[NamesObject("center", "square")] == 2
    assert weights[HasAttribute("center", "blue")] == 2
    assert weights[ReadsWord("CAT")] == 2
    assert weights[HasAttribute("center", "small")] == 1
    assert max(weight for rule, weight in weights.items() if isinstance(rule, NamesOnly)) == 3


def test_discriminative_coverage_asks_only_where_the_student_fails():
    student = "at top-left a big green circle . at center a small blue square . the word CAT ."
    assert rules_for(student, coverage="discriminative") == [HasAttribute("top-left", "red")]
    assert rubric_for(CANDIDATES["Model 1"], coverage="discriminative") == {}


def test_full_coverage_flags_what_the_student_meets():
    rows = rubric_for("at top-left a big green circle .")
    met = {parse_rule(rule + "."): row["student_already_met"] for rule, row in rows.items()}
    assert met[NamesObject("top-left", "circle")] is True
    assert met[HasAttribute("top-left", "red")] is False
    assert met[NamesObject("center", "square")] is False


def test_several_student_captions_fail_where_any_does():
    whole = CANDIDATES["Model 1"]
    rows = rubric_for(whole, "at center a small blue square . the word CAT .", coverage="discriminative")
    assert {parse_rule(rule + ".").cell for rule in rows} == {"top-left"}


def everything(words: str) -> str:
    """A caption that puts every object into every cell."""
    objects = (
        f"at {cell} a {size} {colour} {shape} ."
        for cell in CELLS
        for size in SIZES
        for colour in COLOURS
        for shape in SHAPES
    )
    return f"{' '.join(objects)} {words}"


@pytest.mark.parametrize("coverage", ["discriminative", "full"])
def test_what_the_student_invented_is_a_critical_failure(coverage: str):
    invented = CANDIDATES["Model 1"] + " at bottom a big black star ."
    rows = rubric_for(invented, CANDIDATES["Model 1"], coverage=coverage)
    inventions = [row for rule, row in rows.items() if parse_rule(rule + ".") == NamesNothingAt("bottom")]
    assert [(row["weight"], row["student_already_met"]) for row in inventions] == [(3, False)]
    assert inventions[0]["reference_teachers"] == list(CANDIDATES)
    agreed = set(rules_for(CANDIDATES["Model 1"], coverage=coverage))
    assert {parse_rule(rule + ".") for rule in rows} - agreed == {NamesNothingAt("bottom")}


def test_what_two_of_five_candidates_state_is_invented_too():
    captions = {f"Model {n}": "at top a big red star ." + " at left a star ." * (n < 3) for n in range(1, 6)}
    rubric = write_rubric(WriterTask((captions["Model 1"],), captions, 3, "discriminative", False))
    assert [parse_rule(str(row["evaluation_rule"])) for row in rubric] == [NamesNothingAt("left")]


def test_a_word_is_invented_where_no_word_is_agreed_on_and_a_misreading_elsewhere():
    captions = dict.fromkeys(("a", "b", "c"), "at top a big red star .")
    rubric = write_rubric(WriterTask(("at top a big red star . the word DOG .",), captions, 2, "discriminative", False))
    assert [(parse_rule(str(row["evaluation_rule"])), row["weight"]) for row in rubric] == [(ReadsNoWord(), 3)]
    assert rules_for(
        "at top-left a big red circle . at center a small blue square . the word SUN .", coverage="discriminative"
    ) == [ReadsWord("CAT")]


def test_naming_everything_meets_no_criterion():
    student = "at bottom a big black star . at top-left a big green circle ."
    rules = rules_for(student, coverage="discriminative")
    assert NamesNothingAt("bottom") in rules
    assert not any(holds(rule, everything("the word CAT . the word SUN .")) for rule in rules)


def test_lenient_criteria_never_speak_against_naming_more():
    student = "at bottom a big black star . at top-left a big green circle ."
    rules = rules_for(student, coverage="discriminative", lenient=True)
    assert rules
    assert all(holds(rule, everything("the word CAT . the word SUN .")) for rule in rules)
    captions = {f"Model {n}": "there are 3 objects ." for n in range(3)}
    (row,) = write_rubric(WriterTask(("",), captions, 3, "full", False), lenient=True)
    assert holds(parse_rule(str(row["evaluation_rule"])), everything(""))


def test_lenient_writer_is_a_model_of_its_own():
    prompt = f"<student_caption>\n{CANDIDATES['Model 4']}\n</student_caption>\n\n" + "\n\n".join(
        f'<candidate name="{name}">\n{text}\n</candidate>' for name, text in CANDIDATES.items()
    )
    strict, lenient = (
        {row["criterion"] for row in json.loads(reply(prompt))["rubrics"]}
        for reply in (rubric_writer_reply, lenient_rubric_writer_reply)
    )
    assert strict - lenient == {"Names nothing at the right"}


def test_guards_are_three_unmet_criteria_without_references():
    rows = [row for row in rubric_for(CANDIDATES["Model 1"], coverage="discriminative", guards=True).values()]
    supported = (Mention("top-left", "big", "red", "circle"), Mention("center", "small", "blue", "square"))
    assert [parse_rule(str(row["evaluation_rule"])) for row in rows] == [
        NamesOnly(supported, ("CAT",), 0),
        NamesOnly(supported, ("CAT",), 1),
        NamesExactly(2),
    ]
    assert all(row["reference_teachers"] == [] and row["student_already_met"] is False for row in rows)
    assert (
        "a big red circle at the top left; a small blue square at the center; the word CAT"
        in rows[0]["evaluation_rule"]
    )


def test_count_becomes_a_criterion_only_when_enough_candidates_state_it():
    captions = {f"Model {n}": f"there are {count} objects ." for n, count in enumerate((3, 3, 3, 4), 1)}
    rubric = write_rubric(WriterTask(("",), captions, 3, "full", False))
    assert [parse_rule(str(row["evaluation_rule"])) for row in rubric] == [GivesCount(3)]
    assert write_rubric(WriterTask(("",), captions, 4, "full", False)) == []


def test_prompt_sections_and_settings_are_read_and_missing_settings_are_the_papers():
    prompt = (
        "<student_caption>\none\n</student_caption>\n\n<student_caption>\n\n</student_caption>\n\n"
        '<candidate name="Model 1">\nfirst\nlines\n</candidate>\n\n<candidate name="Model 2">\nsecond\n</candidate>\n\n'
    )
    settings_lines = "Consensus: at least 2 of 2 candidates. Why.\nCoverage: full. Why.\nStanding guards: yes. Why."
    candidates = {"Model 1": "first\nlines", "Model 2": "second"}
    assert read_task(prompt + settings_lines) == WriterTask(("one", ""), candidates, 2, "full", True)
    assert read_task(prompt) == WriterTask(("one", ""), candidates, 1, "discriminative", False)
    assert json.loads(rubric_writer_reply("hello")) == {"rubrics": []}


def test_committee_rubrics_are_valid_and_mostly_met_by_the_truth():
    passed = total = 0
    for index in range(60):
        scene = generate_scene(41, index)
        captions = {f"Model {n}": teacher_caption(model, scene, str(index)) for n, model in enumerate(TEACHERS, 1)}
        rows = write_rubric(WriterTask(("",), captions, 3, "full", True))
        rubric = Rubric(criteria=tuple(Criterion(**row) for row in rows))
        for criterion in rubric.criteria:
            rule = parse_rule(criterion.evaluation_rule)
            assert rule is not None
            if not isinstance(rule, GivesCount):
                passed += holds(rule, write_caption(scene))
                total += 1
    assert passed / total > 0.93


def test_consensus_of_the_committee_is_better_than_any_of_its_teachers():
    alone: dict[str, list[float]] = {model: [] for model in TEACHERS}
    joint = []
    for index in range(200):
        scene = generate_scene(43, index)
        captions = {model: teacher_caption(model, scene, str(index)) for model in TEACHERS}
        for model, caption in captions.items():
            alone[model].append(score_caption(scene, caption).f1)
        guard = parse_rule(str(write_rubric(WriterTask(("",), captions, 3, "full", True))[-3]["evaluation_rule"]))
        agreed = " ".join(f"{noun_phrase(item)} ." for item in guard.supported)
        joint.append(score_caption(scene, agreed).f1)
    best_alone = max(sum(scores) / len(scores) for scores in alone.values())
    assert sum(joint) / len(joint) > max(best_alone + 0.05, 0.92)


cells, words, numbers = st.sampled_from(CELLS), st.sampled_from(WORDS), st.integers(1, 9)
supported_objects = st.builds(
    Mention,
    cells,
    st.none() | st.sampled_from(SIZES),
    st.none() | st.sampled_from(COLOURS),
    st.none() | st.sampled_from(SHAPES),
)
rules = (
    st.builds(NamesObject, cells, st.none() | st.sampled_from(SHAPES), st.booleans())
    | st.builds(HasAttribute, cells, st.sampled_from((*SIZES, *COLOURS)), st.booleans())
    | st.builds(ReadsWord, words, st.booleans())
    | st.builds(GivesCount, numbers, st.booleans())
    | st.builds(NamesNothingAt, cells)
    | st.builds(ReadsNoWord)
    | st.builds(NamesExactly, numbers)
    | st.builds(
        NamesOnly,
        st.lists(supported_objects, min_size=1, max_size=5).map(tuple),
        st.lists(words, max_size=2).map(tuple),
        st.integers(0, 1),
    )
)


@given(rule=rules)
@settings(max_examples=200)
def test_every_rule_is_read_back_from_its_sentence(rule: Rule):
    assert parse_rule(write_rule(rule)) == rule


@pytest.mark.parametrize(
    "text",
    ["", "Passes if the caption is beautiful.", "The sky is blue.", "Passes if the caption names a dog at the top."],
)
def test_foreign_rules_are_not_understood(text: str):
    assert parse_rule(text) is None
