"""Flags on one rubric, from verdicts that a test gives: each fault by itself, and none without it."""

import json

import pytest

from rubricworks.data.rubric_sets.entries import NEGATED
from rubricworks.evaluation.rubric_audit import (
    ADVICE,
    CriterionFlag,
    CriterionReading,
    RubricAudit,
    acts_of,
    examine,
    make_probes,
    reading_messages,
)
from rubricworks.rubrics import Criterion, ErrorClass, Rubric, Scorecard, Verdict

BEST, OTHER = "There is a red cup. It stands on a table.", "There is a blue bird. It sits on a wire."


def rule(word):
    return f"Passes if {word} is named."


def criterion(title, word, weight=1.0, **fields):
    return Criterion(criterion=title, evaluation_rule=rule(word), weight=weight, **fields)


CUP, TABLE = criterion("Names the cup", "cup", 3), criterion("Says where it stands: on the table", "table", 2)
NO_BIRD = criterion("Names a bird that is not there", "bird", -3)
SOUND = (CUP, TABLE, NO_BIRD)


def word_in(criterion, text):
    """True if the word that a rule asks for is in the text."""
    return (
        not criterion.criterion.startswith("Gives the serial") and criterion.evaluation_rule.split()[2] in text.lower()
    )


def read(criteria, joined=(), acts=()):
    """Readings of criteria, of which some join two assertions, or ask for acts."""
    return [
        CriterionReading(
            id=number,
            assertions=("names the cup", "says that it is red") if criterion in joined else ("names it",),
            states_content=criterion not in acts,
        )
        for number, criterion in enumerate(criteria, start=1)
    ]


def found(*criteria, judge=None, responses=(BEST,), joined=(), acts=(), is_read=True):
    """Finding of a rubric whose judge looks for the rule's word, or is `judge`, from (criterion, text) to a credit."""
    judge = judge or word_in
    readings = read(criteria, joined, acts) if is_read else None
    probes = make_probes(Rubric(criteria=criteria), list(responses), [OTHER], acts_of(criteria, readings))
    cards = []
    for probe in probes:
        verdicts = []
        for criterion in probe.rubric.criteria:
            credit = judge(criterion, probe.text)
            error = ErrorClass.TRANSPORT if credit is None else None
            verdicts.append(
                Verdict(criterion=criterion.criterion, credit=None if error else float(credit), error=error)
            )
        cards.append(Scorecard(sample_id="s", response=probe.text, judge="j", verdicts=tuple(verdicts)))
    return examine("s", Rubric(criteria=criteria), probes, cards, readings)


def flags(finding):
    return {(flag.flag, flag.criterion) for flag in finding.flags}


def test_a_sound_rubric_has_no_flag():
    finding = found(*SOUND)
    assert flags(finding) == set()
    assert finding.rewards["response"] == 1
    assert finding.rewards["everything"] == pytest.approx(2 / 5)
    assert finding.gap == pytest.approx(3 / 5)
    assert finding.texts.keys() == {kind for kind, reward in finding.rewards.items() if reward is not None}
    assert finding.texts["empty"] == ""
    assert (finding.order_changes, finding.impossible_credited, finding.unjudged) == (0, False, 0)


def test_flags_of_one_count_are_told_in_the_order_in_which_they_were_found():
    names = list(ADVICE)[::-1]
    finding = found(*SOUND).model_copy(update={"flags": tuple(CriterionFlag(flag=name, reason="") for name in names)})
    assert list(RubricAudit(judge="j", findings=(finding,), criteria=3, calls=10).by_flag) == names


def test_without_anything_against_inventions_naming_everything_pays():
    assert flags(found(CUP, TABLE)) == {("presence only", "")}


def test_rewards_that_padding_changes_are_a_figure_of_the_set():
    by_praise = criterion("Is thorough", "thorough", 1)
    findings = (found(*SOUND), found(*SOUND, by_praise))
    audit = RubricAudit(judge="j", findings=findings, criteria=7, calls=20)
    assert audit.form_changes.value == 0.5
    unjudged = found(*SOUND, judge=lambda criterion, text: None)
    assert RubricAudit(judge="j", findings=(unjudged,), criteria=3, calls=10).form_changes is None


@pytest.mark.parametrize(
    ("extra", "flag"),
    [
        (criterion("The cup is named", "cup"), "overlaps"),
        (criterion("Names the spoon", "spoon"), "never met"),
        (criterion("Says that there are 3 cups", "cup", reference="expr_verify(target='3')"), "leaks"),
    ],
)
def test_a_fault_of_one_criterion_is_flagged_on_it(extra, flag):
    assert (flag, extra.criterion) in flags(found(*SOUND, extra))
    assert {title for _, title in flags(found(*SOUND, extra))} == {extra.criterion}


def test_a_criterion_that_is_read_as_two_is_compound_and_the_reason_names_both():
    both = criterion("Names the red cup", "red")
    (flag,) = found(*SOUND, both, joined=[both]).flags
    assert (flag.flag, flag.criterion) == ("compound", both.criterion)
    assert flag.reason == "it asks for 2 things: 'names the cup'; 'says that it is red'"
    worded_as_two = criterion("Names the cup and says that it is red", "red")
    assert flags(found(*SOUND, worded_as_two)) == set()


def test_a_rubric_that_could_not_be_read_is_untested_and_never_sound():
    finding = found(*SOUND, is_read=False)
    assert (flags(finding), set(finding.untested), finding.undecided) == (set(), {"compound", "parroted"}, True)
    # No claim is credited, whatever the criteria ask for.
    proof = found(
        *SOUND, judge=lambda criterion, text: "meets this" not in text and word_in(criterion, text), is_read=False
    )
    assert set(proof.untested) == {"compound"}
    assert proof.claimed is None


def test_what_any_text_meets_is_flagged_and_an_error_of_the_judge_does_not_hide_it():
    extra = criterion("Is a text", "anything", 0.5)
    texts = []

    def judge(criterion, text):
        if criterion is extra:
            texts.append(text)
            return len(texts) != 2  # one probe in the middle is misjudged
        return word_in(criterion, text)

    assert ("always met", "Is a text") in flags(found(*SOUND, extra, judge=judge))


def test_two_values_of_one_thing_contradict_if_nothing_meets_both():
    red, blue = criterion("Says that the cup is red", "red"), criterion("Says that the cup is blue", "blue")
    finding = found(
        *SOUND,
        red,
        blue,
        judge=lambda criterion, text: blue_only(text) if criterion is blue else word_in(criterion, text),
    )
    assert ("contradicts", blue.criterion) in flags(finding)


def test_a_rule_that_fails_in_other_words_is_the_same_rule():
    first, second = (
        Criterion(criterion=title, evaluation_rule=f"Passes if the cup is named. {ending}", weight=1)
        for title, ending in (("Names the cup", "Fails if it is not."), ("A cup is there", "Otherwise it fails."))
    )
    given = {"judge": word_cup_but_once(), "responses": (BEST, f"{BEST} It is old.", f"{BEST} It is new.")}
    assert ("overlaps", second.criterion) in flags(found(TABLE, NO_BIRD, first, second, **given))
    other = second.model_copy(update={"evaluation_rule": "Passes if a cup is named there. Otherwise it fails."})
    assert "overlaps" not in {flag for flag, _ in flags(found(TABLE, NO_BIRD, first, other, **given))}


def word_cup_but_once():
    """A judge that looks for the word, and errs in one verdict of each of two probes."""
    errors = {("A cup is there", ""), ("Names the cup", OTHER)}

    def judge(criterion, text):
        met = "cup" in text if "cup" in criterion.criterion else word_in(criterion, text)
        return met != ((criterion.criterion, text) in errors)

    return judge


def test_one_error_of_the_judge_does_not_hide_a_contradiction():
    red, blue = criterion("Says that the cup is red", "red"), criterion("Says that the cup is blue", "blue")

    def judge(criterion, text):
        if criterion is blue:
            return blue_only(text) or text.endswith("table. There is a blue bird. It sits on a wire.")
        return word_in(criterion, text)

    assert ("contradicts", blue.criterion) in flags(found(*SOUND, red, blue, judge=judge))


def test_criterion_that_quotes_a_response_leaks_and_shared_words_do_not():
    long = "The red cup with the broken handle stands on the oak table. It is empty."
    quoting = criterion("Names it", "cup", description="As in: a cup with the broken handle stands on the oak table")
    sharing = criterion("Says that the cup with the broken handle is red", "red")
    finding = found(*SOUND, quoting, sharing, responses=[long])
    assert [flag.criterion for flag in finding.flags if flag.flag == "leaks"] == ["Names it"]


def test_the_gap_counts_what_the_claim_of_acts_alone_earns():
    acts = (criterion("Explains the cup", "cup", 3), criterion("Comments on the table", "table"))
    gamed, sound = found(*acts, NO_BIRD, acts=acts), found(*SOUND)
    assert gamed.claimed == 1
    assert gamed.gap == 0
    # The claim of a fact states it, and is no bad response: it is not claimed.
    assert (sound.rewards["parroted"], sound.claimed) == (0, 0)
    assert sound.gap == pytest.approx(3 / 5)


def blue_only(text):
    return "blue" in text and "red" not in text


def test_a_claim_is_gaming_where_an_act_is_asked_for_and_not_where_a_fact_is():
    explains = criterion("Explains how the cup came there", "came")
    fact = criterion("Says that the cup came there", "came")
    responses = [f"{BEST} It came by hand."]
    assert ("parroted", explains.criterion) in flags(found(*SOUND, explains, responses=responses, acts=[explains]))
    assert not {flag for flag, _ in flags(found(*SOUND, fact, responses=responses))} & {"parroted"}


def test_generic_and_coarse_rubrics_are_flagged_whole():
    generic = criterion("Is a sentence", "there", 3)
    assert ("not about it", "") in flags(found(generic, criterion("Uses a verb", "is")))
    assert ("indifferent", "") in flags(found(generic, NO_BIRD))


def test_what_was_not_judged_counts_in_no_flag():
    finding = found(*SOUND, judge=lambda criterion, text: None)
    assert (flags(finding), finding.unjudged, finding.gap) == (set(), 10, None)
    assert finding.undecided
    partly = found(CUP, TABLE, judge=lambda criterion, text: None if "bird" in text else word_in(criterion, text))
    assert not {"presence only", "not about it"} & {flag for flag, _ in flags(partly)}


def test_a_judge_that_minds_the_order_or_credits_the_impossible_is_known():
    seen = []

    def judge(criterion, text):
        seen.append(text)
        first_of_its_list = len(seen) == 1 or seen[-2] != text or seen.count(text) % 3 == 1
        return criterion.criterion.startswith("Gives the serial") or (first_of_its_list and word_in(criterion, text))

    finding = found(CUP, TABLE, NO_BIRD, judge=judge)
    assert finding.impossible_credited is True
    assert finding.order_changes == 1


def all_but(kind_of_text):
    """A judge that fails on one text alone."""
    return lambda criterion, text: None if kind_of_text(text) else word_in(criterion, text)


def test_one_unjudged_probe_hides_no_fault_that_the_others_show():
    """Flags come from the probes that were judged: the padded one decides none of them."""
    never, twin = criterion("Names the spoon", "spoon"), criterion("The cup is named", "cup")
    explains = criterion("Explains how the cup came there", "came")
    finding = found(
        *SOUND,
        never,
        twin,
        explains,
        judge=all_but(lambda text: "worth noting" in text),
        responses=[f"{BEST} It came."],
        acts=[explains],
    )
    assert {("never met", never.criterion), ("overlaps", twin.criterion), ("parroted", explains.criterion)} <= flags(
        finding
    )
    assert (finding.unjudged, finding.untested) == (1, ())


@pytest.mark.parametrize(
    ("lost", "criteria", "untested"),
    [
        (lambda text: text == "", (*SOUND, criterion("Is a text", "anything", 0.5)), {"always met"}),
        (lambda text: text == BEST, SOUND, {"never met", "presence only", "not about it", "indifferent"}),
        (lambda text: text == OTHER, SOUND, {"not about it"}),
        (lambda text: "meets this" in text, (*SOUND, criterion("Explains the cup", "cup")), {"parroted"}),
    ],
)
def test_a_flag_whose_probe_was_not_judged_is_untested_and_not_sound(lost, criteria, untested):
    def judge(criterion, text):
        return None if lost(text) else criterion.criterion == "Is a text" or word_in(criterion, text)

    finding = found(
        *criteria, judge=judge, acts=[criterion for criterion in criteria if criterion.criterion.startswith("Explains")]
    )
    assert set(finding.untested) == untested
    assert finding.undecided is not bool(finding.flags)


def test_without_any_verdict_all_that_verdicts_decide_is_untested():
    twins = (CUP, criterion("The cup is named", "cup"))
    finding = found(*twins, judge=lambda criterion, text: None)
    assert {"always met", "never met", "overlaps", "presence only", "not about it", "indifferent"} == set(
        finding.untested
    )


def named(title, statement, word, **fields):
    """A criterion as Rubrics as Rewards and rewardkit have it: a name, and the statement in the description."""
    return Criterion(criterion=title, description=statement, weight=1, **fields), word


def test_the_statement_of_an_imported_criterion_is_read_where_its_title_is_a_name():
    act, _ = named("Cause", "Explains how the cup came there", "")
    claim = next(
        probe.text for probe in make_probes(Rubric(criteria=(act,)), [BEST], [OTHER]) if probe.kind == "parroted"
    )
    assert "Explains how the cup came there" in claim
    shown = reading_messages([act, CUP])[-1]["content"].splitlines()[1]
    assert [text["text"] for text in json.loads(shown)] == ["Cause: Explains how the cup came there", "Names the cup"]

    def judge(criterion, text):
        return "came" in text if criterion is act else word_in(criterion, text)

    finding = found(*SOUND, act, judge=judge, responses=[f"{BEST} It came by hand."], acts=[act])
    assert ("parroted", "Cause") in flags(finding)


def test_a_negated_criterion_is_a_guard_and_not_always_met():
    """rewardkit's `negate`: nearly every text meets it, and the rubric needs it."""
    guard = Criterion(criterion="Explains a spoon", evaluation_rule=NEGATED, weight=1)

    def judge(criterion, text):
        return "spoon" not in text if criterion is guard else word_in(criterion, text)

    finding = found(*SOUND, guard, judge=judge)
    assert not [flag for flag in finding.flags if flag.criterion == guard.criterion]
    same = guard.model_copy(update={"evaluation_rule": ""})
    assert ("always met", same.criterion) in flags(
        found(*SOUND, same, judge=lambda criterion, text: True if criterion is same else word_in(criterion, text))
    )
