"""People's labels and preferences over HTTP, and their agreement with the judge by hand."""

import csv
import io
import json
from urllib.parse import urlencode

import pytest
from pydantic import SecretStr
from served_api import TOKEN, Caller, ask, bearer, exchange, forget_opinions, served, wait_for, wait_for_rollouts
from trained_run import NAMES, STAGE, finish_tables, write_run, write_table

from rubricworks.cli import main
from rubricworks.platform_api.services.judgements.model_choices import other_model
from rubricworks.platform_api.settings import ApiSettings

PLACE = f"runs/today-1/stages/{STAGE}"
SCRIPT = "a red star <script>alert(1)</script>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    finish_tables(write_run(folder, "other-2"))
    run = write_run(folder)
    finish_tables(run)
    answers = [
        {"sample_id": sample, "model": model, "decoding": "greedy", "response": f"{model} <i>of</i> {sample}"}
        for model in ("base", "policy")
        for sample in "abcd"
    ]
    write_table(run / "score", "scores", [])
    write_table(run / "score" / "responses", "responses", answers)
    return folder


@pytest.fixture(scope="module")
def caller(folder):
    with served(ApiSettings(storage=str(folder), token=SecretStr(TOKEN), index_seconds=0.05)) as url:
        wait_for_rollouts(url, **bearer())
        yield Caller(url)


@pytest.fixture(autouse=True)
def _of_one_test(caller, folder):
    forget_opinions(folder)


def form(caller, page, fields, who="runner"):
    headers = {"Content-Type": "application/x-www-form-urlencoded", **bearer(caller.secret(who))}
    return exchange(caller.pages + page, method="POST", body=urlencode(fields).encode(), **headers)


def label(caller, credits, *, step=1, response="a star", who="runner"):
    body = {"step": step, "sample_id": "a", "response": response, "credits": credits}
    return caller.post(who, f"{PLACE}/labels", body)


def test_labels_replace_a_persons_earlier_ones_and_come_by_page(caller):
    assert label(caller, {NAMES[0]: 0.0, NAMES[1]: 1.0})[0] == 201
    assert label(caller, {NAMES[0]: 1.0})[0] == 201
    assert label(caller, {NAMES[0]: 0.5}, who="runner-2")[0] == 201
    first = caller.get(f"{PLACE}/labels?limit=2")
    rest = caller.get(f"{PLACE}/labels?limit=2&cursor={first['next_cursor']}")
    result = {(item["rater"], item["criterion"]): item["credit"] for item in first["items"] + rest["items"]}
    assert result == {("runner", NAMES[0]): 1.0, ("runner", NAMES[1]): 1.0, ("runner-2", NAMES[0]): 0.5}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"response": "no such"}, "has no such response"),
        ({"credits": {"Is new": 1.0}}, "was not graded by 'Is new'"),
        ({"credits": {NAMES[0]: 1.5}}, "less than or equal to 1"),
    ],
)
def test_labels_of_what_was_not_graded_are_refused(caller, change, message):
    status, answer = label(caller, **({"credits": {NAMES[0]: 1.0}} | change))
    assert (status, message in answer["detail"]) == (422, True)
    assert label(caller, {NAMES[0]: 1.0}, step=99)[0] == 404


def test_agreement_is_that_of_the_command_on_the_exported_csv(caller, folder, tmp_path, capsys):
    # The judge gave "a star" 1, 0, 0.5 in both steps; the majority of the labels is tied on the first criterion.
    label(caller, {NAMES[0]: 1.0, NAMES[1]: 1.0})
    label(caller, {NAMES[0]: 0.5}, who="runner-2")
    report = caller.get(f"{PLACE}/agreement")
    (comparison,) = report["comparisons"]
    assert (comparison["first"], comparison["second"], comparison["overall"]["units"]) == ("people", "judge", 1)
    assert comparison["left_out_first"] == {"tied": 1}
    assert comparison["overall"]["accuracy"]["value"] == 0.0
    (tmp_path / "labels.csv").write_bytes(exchange(f"{caller.url}/{PLACE}/labels/csv", **bearer())[2])
    scorecards = folder / "today-1" / STAGE / "scorecards"
    with pytest.raises(SystemExit) as end:
        main(["agreement", str(tmp_path / "labels.csv"), str(scorecards), "--json", str(tmp_path / "out.json")])
    assert end.value.code == 0, capsys.readouterr().err
    assert json.loads((tmp_path / "out.json").read_text())["comparisons"] == report["comparisons"]


def test_judges_of_two_runs_are_compared_on_the_responses_of_both(caller):
    report = caller.get(f"{PLACE}/agreement?with=other-2")
    pairs = {(comparison["first"], comparison["second"]): comparison["overall"] for comparison in report["comparisons"]}
    same = pairs["judge in today-1", "judge in other-2"]
    # Each of 2 samples has 3 responses with 3 criteria, in both steps; the later verdicts on them are repeated.
    assert (same["units"], same["accuracy"]["value"]) == (16, 1.0)
    assert caller.get(f"{PLACE}/agreement?with=none")["detail"].startswith("there is no run 'none'")
    status, _, body = exchange(f"{caller.pages}/runs/today-1/agreement/{STAGE}?with=other-2", **bearer())
    assert (status, b"judge in other-2" in body) == (200, True)


def test_labels_come_in_as_csv_and_a_mistake_stores_none(caller):
    rows = [["sample_id", "criterion", "label", "response", "rater"], ["a", NAMES[2], "no", SCRIPT, "paula"]]
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    headers = {"Content-Type": "text/csv", "Idempotency-Key": "file-000001", **bearer(caller.secret("runner"))}
    place = f"{caller.url}/{PLACE}/labels/csv"
    assert ask(place, method="POST", body=text.getvalue().encode(), **headers) == (200, {"stored": 1})
    assert "paula (imported by runner)" in {item["rater"] for item in caller.get(f"{PLACE}/labels")["items"]}
    wrong = text.getvalue().replace(",no,", ",maybe,").encode()
    headers["Idempotency-Key"] = "file-000002"
    status, answer = ask(place, method="POST", body=wrong, **headers)
    assert (status, answer["detail"].startswith("labels.csv: line 2: label 'maybe' is no credit")) == (422, True)


def imported(caller, place, who, text):
    """Details that the audit log has of an import."""
    caller.keys += 1
    headers = {"Content-Type": "text/csv", "Idempotency-Key": f"import-{caller.keys:08}", **bearer(caller.secret(who))}
    assert ask(f"{caller.url}/{place}/csv", method="POST", body=text.encode(), **headers)[0] == 200
    return caller.get("changes?limit=1")["items"][0]["details"]


def test_a_file_replaces_no_labels_of_another_person_unless_an_admin_brings_it(caller):
    label(caller, {NAMES[0]: 0.25}, who="runner-a")
    text = f"sample_id,criterion,label,response,rater\r\na,{NAMES[0]},1,a star,runner-a\r\n"

    def of_a():
        result = caller.get(f"{PLACE}/labels?limit=200")["items"]
        return {item["rater"]: item["credit"] for item in result if item["rater"].startswith("runner-a")}

    told = "runner-a (imported by runner-b)"
    assert imported(caller, f"{PLACE}/labels", "runner-b", text) == {"labels": 1, "raters": {told: 1}}
    again = text.replace("runner-a", told)  # as the export names it
    assert imported(caller, f"{PLACE}/labels", "runner-b", again)["raters"] == {told: 1}
    assert of_a() == {"runner-a": 0.25, told: 1.0}
    assert imported(caller, f"{PLACE}/labels", "admin-c", text)["raters"] == {"runner-a": 1}
    assert of_a() == {"runner-a": 1.0, told: 1.0}


def test_a_person_is_led_through_groups_without_the_verdicts(caller):
    places = set()
    for _ in range(2):
        start = f"{caller.pages}/runs/today-1/label/{STAGE}"
        status, headers, _ = exchange(start, **bearer(caller.secret("runner-3")))
        assert status == 303
        page = headers["location"]
        _, _, body = exchange(caller.pages + page, **bearer(caller.secret("runner-3")))
        assert b"because" not in body, "the judge's reason"
        assert b"<script>alert" not in body
        digest = body.split(b'name="response" value="')[1].split(b'"')[0].decode()
        status, headers, _ = form(caller, page, {"response": digest, "criterion-0": "met"}, "runner-3")
        assert (status, headers["location"]) == (303, f"/runs/today-1/label/{STAGE}")
        places.add(page.rpartition("/")[2])
    assert places == {"a", "b"}
    assert b"Nothing is left to label" in exchange(start, **bearer(caller.secret("runner-3")))[2]
    assert b"alpha" in exchange(f"{caller.pages}/runs/today-1/agreement/{STAGE}", **bearer())[2].lower()


def test_a_person_reads_of_a_criterion_what_the_judge_reads(caller, folder):
    rubric = {
        "criteria": [
            {"criterion": NAMES[0], "weight": 3.0, "description": "Is it <i>named</i>?", "evaluation_rule": "A star."},
            {"criterion": NAMES[1], "weight": 1.0, "reference": "Crimson counts."},
            {"criterion": NAMES[2], "weight": 1.0, "reference": "text_verify(target='one thing')"},
        ]
    }
    rows = [{"sample_id": "a", "rubric": json.dumps(rubric)}]
    write_table(folder / "today-1" / "synthesize_rubrics", "rubrics", rows)
    place, key = f"{caller.pages}/runs/today-1", bearer(caller.secret("runner"))
    wait_for(lambda: b">rubrics<" in exchange(f"{place}?tab=artifacts", **key)[2])
    page = exchange(f"{place}/label/{STAGE}/1/a", **key)[2].decode()
    for text in ("Is it &lt;i&gt;named&lt;/i&gt;?", "A star.", "Crimson counts.", "by text_verify: one thing"):
        assert text in page
    assert "weight" not in page.lower(), "the judge sees none"


PAIRS = "/runs/today-1/compare?first=base&second=policy"


def compare_pairs(caller):
    """One person's choices on all pairs: sample → True if it is for `base`, None for neither."""
    winners = {}
    for side in ("left", "left", "right", "equal"):
        _, _, body = exchange(caller.pages + PAIRS, **bearer(caller.secret("runner")))
        assert b"<i>of" not in body
        sample = body.split(b'name="sample_id" value="')[1].split(b'"')[0].decode()
        left_is_base = body.index(b"base &lt;i&gt;") < body.index(b"policy &lt;i&gt;")
        winners[sample] = {"left": left_is_base, "right": not left_is_base, "equal": None}[side]
        fields = {"first": "base", "second": "policy", "sample_id": sample, "side": side}
        assert form(caller, "/runs/today-1/compare", fields)[0] == 303
    return winners


def test_a_pair_hides_who_wrote_it_and_each_side_counts_for_its_model(caller):
    winners = compare_pairs(caller)
    assert sorted(winners) == list("abcd")
    result = caller.get("runs/today-1/preferences/models")
    (standing,) = result["standings"]
    assert result["models"] == {"base": 4, "policy": 4}
    wins = sum(winner is True for winner in winners.values())
    assert (standing["wins"], standing["equal"], standing["losses"]) == (wins, 1, 3 - wins)
    assert standing["share"]["value"] == pytest.approx((wins + 0.5) / 4)
    assert b"compared every sample" in exchange(caller.pages + PAIRS, **bearer(caller.secret("runner")))[2]


def test_two_models_are_compared_before_two_decodings_of_one():
    models = ["base", "base, sampled", "base at 10", "policy", "policy, sampled"]
    assert other_model(models, "base") == "policy"
    assert other_model(models, "policy, sampled") == "base"
    assert other_model(models[:2], "base") == "base, sampled"
    assert other_model(models[:1], "base") == "base"


def test_an_evaluation_without_groups_offers_no_page_to_label_on(caller):
    status, _, body = exchange(f"{caller.pages}/runs/today-1/agreement/score", **bearer(caller.secret("runner")))
    assert (status, b"label responses" in body) == (200, False)
    _, _, body = exchange(f"{caller.pages}/runs/today-1/label/score", **bearer(caller.secret("runner")))
    assert b"labels of its responses come as CSV" in body


def test_a_run_whose_models_have_not_answered_yet_has_nothing_to_compare(caller, folder):
    write_table(folder / "other-2" / "score" / "responses", "responses", [])
    page = f"{caller.pages}/runs/other-2/compare"
    wait_for(lambda: exchange(page, **bearer(caller.secret("runner")))[0] != 404)
    status, _, body = exchange(page, **bearer(caller.secret("runner")))
    assert (status, b"fewer than two models" in body) == (200, True)


def test_preferences_go_out_and_in_as_csv(caller):
    compare_pairs(caller)
    text = exchange(f"{caller.url}/runs/today-1/preferences/csv", **bearer())[2].decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert {row["rater"] for row in rows} == {"runner"}
    headers = {"Content-Type": "text/csv", "Idempotency-Key": "file-000003", **bearer(caller.secret("runner-2"))}
    again = text.replace(",runner\r\n", ",\r\n").encode()
    place = f"{caller.url}/runs/today-1/preferences/csv"
    assert ask(place, method="POST", body=again, **headers) == (200, {"stored": 4})
    assert caller.get("runs/today-1/preferences/models")["standings"][0]["raters"] == 2
    mine = text.replace("policy,first", "policy,equal").replace("policy,second", "policy,equal")
    details = imported(caller, "runs/today-1/preferences", "runner-2", mine)
    assert details == {"preferences": 4, "raters": {"runner (imported by runner-2)": 4}}
    assert text in exchange(f"{caller.url}/runs/today-1/preferences/csv", **bearer())[2].decode()
    wrong = text.replace("policy", "nobody").encode()
    headers["Idempotency-Key"] = "file-000004"
    assert "has no responses of 'nobody'" in ask(place, method="POST", body=wrong, **headers)[1]["detail"]
    body = {"first": "base", "second": "policy", "sample_id": "z", "choice": "first"}
    assert caller.post("runner", "runs/today-1/preferences", body)[0] == 404
