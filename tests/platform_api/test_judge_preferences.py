"""Two judges on the same responses, blind: by votes of one run and by the tables of two, against counts by hand."""

import csv
import io
import json
import re
from html import unescape
from urllib.parse import quote, urlencode

import pytest
from pydantic import SecretStr
from served_api import TOKEN, Caller, ask, bearer, exchange, forget_opinions, served, wait_for
from trained_run import STAGE, finish_tables, write_run, write_table

from rubricworks.platform_api.services import recent_values
from rubricworks.platform_api.services.judgements import judge_choices, judge_verdicts
from rubricworks.platform_api.settings import ApiSettings

NAMES = ["Names the star", "Says <b>red</b>"]
SAMPLES = "abcd"
VOTES = "fast + strong"
FAST, STRONG = "fast in today-1/score", "strong in today-1/score"
ALONE, OTHER = f"{VOTES} in today-1/score", "careful in other-2/score"
SCRIPT = "<script>alert(1)</script>"
KEY = r'name="idempotency_key" value="\w+"'


def raw(scores, words):
    """A judge's answer as it wrote it."""
    verdicts = [{"id": at, "reasoning": f"{words} {at}", "score": score} for at, score in enumerate(scores, 1)]
    return json.dumps({"verdicts": verdicts})


def card(sample, judge, credits, words, votes=None):
    """A scorecard; with votes, of two judges with the answers that they gave."""
    verdicts = [
        {"criterion": name, "credit": credit, "error": None, "reasoning": f"{words} {at}"}
        | ({"votes": list(votes[at - 1])} if votes else {})
        for at, (name, credit) in enumerate(zip(NAMES, credits, strict=True), 1)
    ]
    answers = []
    if votes:
        fast, strong = zip(*votes, strict=True)
        answers = [raw(fast, f"fast words {SCRIPT}"), f"<think>hm</think>{raw(strong, 'strong words')}"]
    return {
        "sample_id": sample,
        "response": f"a star of {sample}",
        "judge": judge,
        "verdicts": verdicts,
        "raw": answers,
    }


def write_scores(run, cards):
    rows = [
        {"sample_id": card["sample_id"], "model": "policy", "revision": "r", "decoding": "greedy", "version": "1"}
        | {"scorer": scorer, "judge": card["judge"], "part": part, "value": 1.0, "evidence": evidence}
        for card in cards
        for scorer, part, evidence in (("oracle", "f1", "{}"), ("rubric", "reward", json.dumps(card)))
    ]
    write_table(run / "score", "scores", rows, shard=3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    today, other = write_run(folder), write_run(folder, "other-2")
    finish_tables(today)
    # On the samples a to c the two judges differ on the first criterion; the lower vote stands.
    votes = {sample: [(1.0, 0.0 if sample != "d" else 1.0), (0.0, 0.0)] for sample in SAMPLES}
    write_scores(
        today,
        [card(sample, VOTES, [min(pair) for pair in votes[sample]], "told", votes=votes[sample]) for sample in SAMPLES],
    )
    of_training = [
        {"step": 1, "sample_id": sample, "response": f"a star of {sample}", "judge": VOTES}
        | {
            "scorecard": json.dumps(
                card(sample, VOTES, [min(pair) for pair in votes[sample]], "told", votes=votes[sample])
            )
        }
        for sample in SAMPLES
    ]
    write_table(write_run(folder, "voted-3") / STAGE / "scorecards", "scorecards", of_training)
    apart = write_run(folder, "apart-4")
    write_table(apart / STAGE / "scorecards", "scorecards", of_training)
    write_scores(apart, [card("z", "lone", [1.0, 1.0], "alone")])
    unlike = write_run(folder, "unlike-5")
    trained = card("a", "judge", [1.0, 1.0], "told")
    row = {"step": 1, "sample_id": "a", "response": trained["response"], "judge": "judge"}
    write_table(unlike / STAGE / "scorecards", "scorecards", [row | {"scorecard": json.dumps(trained)}])
    write_scores(unlike, [card("z", "judge", [1.0, 1.0], "alone")])
    write_scores(other, [card(item, "careful", [1.0, 1.0], "with care") for item in "abx"])
    return folder


@pytest.fixture(scope="module")
def caller(folder):
    with served(ApiSettings(storage=str(folder), token=SecretStr(TOKEN), index_seconds=0.05)) as url:
        caller = Caller(url)
        for run in ("today-1", "other-2", "voted-3", "apart-4", "unlike-5"):
            wait_for(lambda run=run: caller.get(f"runs/{run}/judge-preferences/judges").get("judges"))
        yield caller


@pytest.fixture(autouse=True)
def _of_one_test(caller, folder):
    forget_opinions(folder)


def judges_with(caller, monkeypatch, **limits):
    """Judges of a run whose tables are read anew, with these limits."""
    monkeypatch.setattr(recent_values, "_kept", {})
    for name, limit in limits.items():
        monkeypatch.setattr(judge_verdicts, name, limit)
    return caller.get("runs/today-1/judge-preferences/judges")["judges"]


def test_a_large_table_is_read_in_part_and_the_same_responses_of_two_tables_are_kept(caller, monkeypatch):
    # Rows of two scorers take turns, three in a shard: a's pair and b's first, then b's second and c's pair.
    assert judges_with(caller, monkeypatch, _MOST_ROWS=6)[FAST] == 3
    assert judges_with(caller, monkeypatch, _MOST_ROWS=3)[FAST] == 1
    result = judges_with(caller, monkeypatch, _MOST_ROWS=20_000, _MOST_RESPONSES=2)
    assert (result[FAST], result["judge in today-1/train_policy"]) == (2, 2)
    keys = {key for judges in recent_values._kept.values() for key in judges.get("fast", ())}
    assert keys == set(sorted(judge_verdicts.response_key(sample, f"a star of {sample}") for sample in SAMPLES)[:2])


def page_of(first, second):
    return f"/runs/today-1/compare-judges?{urlencode({'first': first, 'second': second})}"


def look(caller, page, who="runner"):
    status, _, body = exchange(caller.pages + page, **bearer(caller.secret(who)))
    assert status == 200, body
    return body.decode()


def answer(caller, body, first, second, sides, who="runner"):
    """Send the page's form with these choices."""
    fields = {"first": first, "second": second, "response": re.search(r'name="response" value="(\w+)"', body)[1]}
    headers = {"Content-Type": "application/x-www-form-urlencoded", **bearer(caller.secret(who))}
    place = f"{caller.pages}/runs/today-1/compare-judges"
    return exchange(place, method="POST", body=urlencode(fields | sides).encode(), **headers)


def choose(caller, choices, *, first=FAST, second=STRONG, sample="a", who="runner", response=None):
    body = {"first": first, "second": second, "sample_id": sample, "choices": choices}
    body["response"] = f"a star of {sample}" if response is None else response
    return caller.post(who, "runs/today-1/judge-preferences", body)


def standing(caller, first, second, more="&reveal=true"):
    query = f"first={quote(first)}&second={quote(second)}{more}"
    return caller.get(f"runs/today-1/judge-preferences/standing?{query}")


def test_judges_that_voted_and_those_of_another_run_are_named_with_their_responses(caller):
    of_run = {FAST: 4, STRONG: 4, ALONE: 4, "judge in today-1/train_policy": 6}
    assert caller.get("runs/today-1/judge-preferences/judges")["judges"] == of_run
    assert caller.get("runs/today-1/judge-preferences/judges?with=other-2")["judges"][OTHER] == 3
    assert caller.get("runs/today-1/judge-preferences/judges?with=none")["detail"].startswith("there is no run 'none'")


def test_a_page_hides_the_judges_and_each_side_counts_for_its_own(caller):
    page, right, orders = page_of(FAST, STRONG), {}, set()
    for number in range(4):
        body = look(caller, page)
        assert SCRIPT not in body
        sample = re.search(r"a star of (\w)", body)[1]
        assert (sample == "d") == (number == 3), "those on which the judges differ come first"
        shown = unescape(body)
        form = shown[shown.index('<form class="label-form"') :]
        assert "fast in" not in re.sub(r"<input[^>]*>", "", form)
        words = [form.index("fast words"), form.index("strong words")]
        left_is_fast = words[0] < words[1]
        assert form.count("fast words") == form.count("strong words") == 2, "each judge's own reasons"
        assert re.sub(KEY, "", look(caller, page)) == re.sub(KEY, "", body), "the same order each time"
        orders.add(left_is_fast)
        side = {0: "left", 1: "right", 2: "both", 3: "left"}[number]
        right[sample] = side if side == "both" else "first" if (side == "left") == left_is_fast else "second"
        sides = {"criterion-0": side, "scorecard": "neither"}
        status, headers, _ = answer(caller, body, FAST, STRONG, sides)
        assert (status, headers["location"].startswith("/runs/today-1/compare-judges?first=fast")) == (303, True)
    assert "compared every response" in look(caller, page)
    preferences = caller.get("runs/today-1/judge-preferences")["items"]
    assert {item["sample_id"]: item["choice"] for item in preferences if item["criterion"] == NAMES[0]} == right
    assert {item["choice"] for item in preferences if item["criterion"] == ""} == {"neither"}
    result = standing(caller, FAST, STRONG)["result"]
    firsts, seconds = (sum(item == name for item in right.values()) for name in ("first", "second"))
    assert [result["criteria"][name] for name in ("wins", "equal", "losses", "raters")] == [firsts, 1, seconds, 1]
    assert result["criteria"]["share"]["value"] == pytest.approx((firsts + 0.5) / 4)
    assert (result["scorecards"]["equal"], result["neither"]) == (4, 4)


def test_the_order_of_the_sides_differs_among_people(caller):
    sides = set()
    for number in range(12):
        body = unescape(look(caller, page_of(FAST, STRONG), f"runner-{number}"))
        sides.add(body.index("fast words") < body.index("strong words"))
    assert sides == {True, False}


def test_judges_of_two_runs_meet_on_the_responses_of_both(caller):
    who, seen = "runner-two", set()
    for _ in range(2):
        body = look(caller, page_of(ALONE, OTHER), who)
        seen.add(re.search(r"a star of (\w)", body)[1])
        assert answer(caller, body, ALONE, OTHER, {"criterion-1": "both"}, who)[0] == 303
    assert seen == {"a", "b"}
    assert "compared every response" in look(caller, page_of(ALONE, OTHER), who)
    nothing = look(caller, page_of("judge in today-1/train_policy", OTHER), who)
    assert "judged no response in common" in nothing
    assert "Reveal it now" not in nothing
    assert "fewer than two judges" in exchange(f"{caller.pages}/runs/other-2/compare-judges", **bearer())[2].decode()


def test_a_page_begins_with_two_judges_that_have_responses_in_common(caller):
    body = look(caller, "/runs/apart-4/compare-judges")
    assert re.findall(r"<option selected>([^<]+)</option>", body)[:2] == [
        f"{name} in apart-4/train_policy" for name in ("fast", "strong")
    ]
    assert "a star of" in body


def test_a_page_says_at_once_that_no_two_judges_of_a_run_judged_the_same(caller):
    body = look(caller, "/runs/unlike-5/compare-judges")
    assert "No two of these judges have judged the same response" in body
    asked = look(caller, "/runs/unlike-5/compare-judges?first=judge+in+unlike-5/score")
    assert "These two judges have judged no response in common" in asked


def test_the_standing_is_told_after_enough_choices_or_at_a_wish(caller, monkeypatch):
    who = "runner-late"
    monkeypatch.setattr(judge_choices, "ENOUGH", 2)
    hidden = ask(
        f"{caller.url}/runs/today-1/judge-preferences/standing?first={quote(FAST)}&second={quote(STRONG)}",
        **bearer(caller.secret(who)),
    )[1]
    assert (hidden["mine"], hidden["needed"], hidden["result"]) == (0, 2, None)
    page = page_of(FAST, STRONG)
    assert "Result so far" not in look(caller, page, who)
    assert "Result so far" in look(caller, f"{page}&reveal=true", who)
    assert choose(caller, {NAMES[0]: "first", NAMES[1]: "both"}, who=who)[0] == 201
    assert "Result so far" in look(caller, page, who)


@pytest.mark.parametrize(("run", "stage"), [("voted-3", STAGE), ("today-1", "score")])
def test_judges_agree_with_labels_as_often_as_by_hand(caller, run, stage):
    # People: a and b meet the first criterion, c does not. The fast judge says 1, 1, 1; the strong one 0, 0, 0.
    fast, strong = (name.replace("today-1/score", f"{run}/{stage}") for name in (FAST, STRONG))
    place = f"runs/{run}/judge-preferences/standing?first={quote(fast)}&second={quote(strong)}&reveal=true"
    assert (caller.get(place)["result"]["labelled"], caller.get(place)["result"]["first_agrees"]) == (0, None)
    rows = [["sample_id", "criterion", "label", "response"]]
    rows += [[item, NAMES[0], label, f"a star of {item}"] for item, label in (("a", 1), ("b", 1), ("c", 0))]
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    headers = {"Content-Type": "text/csv", "Idempotency-Key": f"labels-{run}", **bearer(caller.secret("runner"))}
    labels = f"{caller.url}/runs/{run}/stages/{stage}/labels/csv"
    assert ask(labels, method="POST", body=text.getvalue().encode(), **headers) == (200, {"stored": 3})
    result = caller.get(place)["result"]
    assert (result["labelled"], result["first_agrees"]["value"]) == (3, pytest.approx(2 / 3))
    assert result["second_agrees"]["value"] == pytest.approx(1 / 3)
    # Of the table of agreement, which has the card's own judge: its credits are the lower votes, so 0, 0, 0.
    (comparison,) = caller.get(f"runs/{run}/stages/{stage}/agreement")["comparisons"]
    assert (comparison["second"], comparison["overall"]["accuracy"]["value"]) == (VOTES, pytest.approx(1 / 3))


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({"choices": {"Is new": "first"}}, 422, "did not both judge by 'Is new'"),
        ({"choices": {NAMES[0]: "equal"}}, 422, "Input should be"),
        ({"sample": "z"}, 404, "did not both judge such a response"),
        ({"second": FAST}, 422, "name another judge than the first"),
        ({"second": "nobody in today-1/score"}, 404, "has no judge 'nobody'"),
        ({"second": "fast"}, 404, "name it as `JUDGE in RUN/STAGE`"),
        ({"first": OTHER, "second": "judge in other-2/score"}, 404, "it has careful"),
    ],
)
def test_choices_about_what_two_judges_did_not_judge_are_refused(caller, change, status, message):
    answered = choose(caller, **({"choices": {NAMES[0]: "first"}} | change))
    assert (answered[0], message in json.dumps(answered[1])) == (status, True), answered


def test_choices_replace_a_persons_earlier_ones_and_go_out_and_in_as_csv(caller):
    for choice in ("first", "second"):
        assert choose(caller, {NAMES[0]: choice, "": choice}, who="runner-csv", sample="b")[0] == 201
    place = f"{caller.url}/runs/today-1/judge-preferences/csv"
    text = exchange(place, **bearer())[2].decode()
    mine = [row for row in csv.DictReader(io.StringIO(text)) if row["rater"] == "runner-csv"]
    assert [(row["criterion"], row["choice"]) for row in mine] == [(NAMES[0], "second"), ("", "second")]

    def bring(text, key, who="runner-in"):
        headers = {"Content-Type": "text/csv", "Idempotency-Key": f"choices-{key}", **bearer(caller.secret(who))}
        return ask(place, method="POST", body=text.encode(), **headers)

    lines = [",".join(mine[0]), *(",".join([*list(row.values())[:-1], ""]) for row in mine)]
    again = "\r\n".join(lines) + "\r\n"
    assert bring(again, "good") == (200, {"stored": 2})
    stored = caller.get("runs/today-1/judge-preferences?limit=200")["items"]
    assert {item["choice"] for item in stored if item["rater"] == "runner-in"} == {"second"}
    wrongs = (
        (again.replace(",second,\r", ",equal,\r"), "line 2: choice is 'equal'"),
        (again.replace("strong in", "weak in"), "line 2: today-1/score has no judge 'weak'"),
        (again.replace(NAMES[0], "Is new"), "line 2: the judges did not both judge by 'Is new'"),
        ("a,b\n", "line 1: there is no column 'sample_id'"),
        (again.replace("a star of b", "another"), "did not both judge such a response"),
    )
    for number, (wrong, message) in enumerate(wrongs):
        status, problem = bring(wrong, f"wrong-{number}")
        assert (status, message in problem["detail"]) == (422, True), problem
