"""`rubricworks agreement --judge`: a judge asked again, by a server whose flips, order effect and tokens are known."""

import json

import pytest
from rated import card, write_labels, write_parquet
from scripted_server import Said, fail, say

from rubricworks.llm import Endpoint
from rubricworks.llm.identity import Identity, IdentityPin
from rubricworks.rubrics import Criterion, Rubric

TITLES = ("red", "round", "big", "shiny")
WEIGHTS = (3, 2, 1, 1)
SAMPLES = [f"s{number}" for number in range(6)]


def judge(_, body):
    """Meets "red" always, "round" by the seed, "big" where it is listed second; 100 tokens and 10 for each."""
    criteria = json.loads(body["messages"][1]["content"].split("<criteria>\n")[1].split("\n</criteria>")[0])
    scores = []
    for criterion in criteria:
        met = {"red": True, "round": body["seed"] % 2, "big": criterion["id"] == 2, "shiny": False}[
            criterion["criterion"]
        ]
        scores.append({"id": criterion["id"], "reasoning": "", "score": int(met)})
    said = json.loads(say(json.dumps({"verdicts": scores}), tokens=(100 + 10 * len(criteria), 5 * len(criteria))).body)
    said["usage"]["prompt_tokens_details"] = {"cached_tokens": 80}
    return Said(json.dumps(said | {"model": "m-2026-01", "system_fingerprint": "fp_7"}).encode())


@pytest.fixture
def sources(tmp_path):
    cards = [card(name, dict(zip(TITLES, (1.0, 0.0, 0.0, 0.0), strict=True))) for name in SAMPLES]
    rubric = Rubric(
        criteria=tuple(Criterion(criterion=title, weight=weight) for title, weight in zip(TITLES, WEIGHTS, strict=True))
    ).model_dump(mode="json")
    rubrics = tmp_path / "rubrics.jsonl"
    rubrics.write_text("".join(json.dumps({"sample_id": name, "rubric": rubric}) + "\n" for name in SAMPLES))
    return write_parquet(tmp_path / "t.parquet", cards), rubrics


def test_flips_order_calls_and_prices_are_the_servers_own(tell, serve, sources, tmp_path):
    table, rubrics = sources
    server = serve(judge)
    result = tell(
        "agreement", table, "--rubrics", rubrics, "--judge", f"m@{server.url}", "--repeats", 2, "--limit", 4,
        "--prices", "10,100,1", "--revision", "r1", "--json", tmp_path / "a.json",
    )  # fmt: skip
    assert result.code == 0, result
    probe = json.loads((tmp_path / "a.json").read_text())["probe"]
    assert (probe["responses"], probe["verdicts"], probe["unjudged"]) == (4, 16, 0)
    assert probe["flips"]["value"] == pytest.approx(1 / 4)  # "round" alone
    # Reversed, "big" stands second of four; alone in a call, first.
    assert probe["order_changes"]["value"] == pytest.approx(1 / 4)
    assert probe["call_changes"]["value"] == 0
    whole, each = probe["per_response"], probe["per_criterion"]
    assert (whole["calls"], whole["prompt_tokens"], whole["cached_tokens"], whole["completion_tokens"]) == (
        1,
        140,
        80,
        20,
    )
    assert (each["calls"], each["prompt_tokens"], each["cached_tokens"], each["completion_tokens"]) == (4, 440, 320, 20)
    assert whole["dollars"] == pytest.approx((60 * 10 + 80 * 1 + 20 * 100) / 1e6)
    assert each["dollars"] == pytest.approx((120 * 10 + 320 * 1 + 20 * 100) / 1e6)
    assert (probe["identity"]["identity"], probe["identity"]["prompts"]) == (["m-2026-01", "fp_7"], ["judge-2"])
    assert probe["revision"] == "r1"
    assert len(server.chats) == 4 * (2 + 1 + 4)
    printed = " ".join(result.out.split())
    assert "it answers as m-2026-01 (fp_7), revision r1, prompt judge-2" in printed
    assert "140 tokens in (80 of them cached there), 20 out" in printed
    assert "1.3 times the dollars" in printed


def test_a_judge_of_a_set_with_prompts_is_shown_them(tell, serve, sources, tmp_path):
    table, rubrics = sources
    rows = [json.loads(line) for line in rubrics.read_text().splitlines()]
    rubrics.write_text(
        "".join(json.dumps(row | {"prompt": f"What is {row['sample_id']}?", "reference": "red"}) + "\n" for row in rows)
    )
    server = serve(judge)
    result = tell("agreement", table, "--rubrics", rubrics, "--judge", f"m@{server.url}", "--json", tmp_path / "a.json")
    assert result.code == 0, result
    asked = [heard.body["messages"][1]["content"] for heard in server.chats]
    assert all("What is s" in text and "<reference_answer>" in text for text in asked)
    probe = json.loads((tmp_path / "a.json").read_text())["probe"]
    assert probe["identity"]["prompts"] == ["answer-judge-1"]


def test_errors_are_told_by_weight_and_verdicts_by_the_identity_beside_them(tell, sources, tmp_path):
    table, rubrics = sources
    pin = IdentityPin(Endpoint(url="http://gpu/v1", model="strict", revision="r2"), "judge", tmp_path)
    pin.note_prompt("judge-2")
    pin.check(Identity("strict-7b", "fp"))
    rows = [(name, title, label) for name in SAMPLES for title, label in zip(TITLES, "0110", strict=True)]
    result = tell("agreement", write_labels(tmp_path / "l.csv", rows), table, "--rubrics", rubrics, "--json", "a.json")
    assert result.code == 0, result
    report = json.loads((tmp_path / "a.json").read_text())
    (errors,) = report["errors"]
    by_weight = {rates["weight"]: rates for rates in errors["by_weight"]}
    assert by_weight[3]["false_positive"]["value"] == 1
    assert by_weight[3]["false_negative"] is None
    assert by_weight[2]["false_negative"]["value"] == 1
    assert (by_weight[1]["labelled"], by_weight[1]["false_positive"]["value"]) == (12, 0)
    (identity,) = report["identities"]
    entry = {"identity": ["strict-7b", "fp"], "prompts": ["judge-2"], "revision": "r2", "others": []}
    assert identity["entries"] == [entry]
    assert "strict answers as strict-7b (fp), revision r2, prompt judge-2" in result.out
    assert "weight 3: credits 100 %" in " ".join(result.out.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--judge", "m@URL"], "name them by --rubrics"),
        (["--judge", "m@URL", "--rubrics", "rubrics.jsonl", "--prices", "1"], "--prices is '1'; write two or three"),
        (["--judge", "m@URL", "--rubrics", "rubrics.jsonl", "--prices", "1,nan"], "--prices is '1,nan'"),
        (["--judge", "m@URL", "--rubrics", "other.jsonl"], "no sample_id of the scorecards stands in other.jsonl"),
        (["--judge", "m@URL", "--rubrics", "rubrics.jsonl"], "no probe could be judged"),
    ],
)
def test_what_a_probe_lacks_is_said_in_one_line(tell, serve, sources, tmp_path, options, message):
    text = (tmp_path / "rubrics.jsonl").read_text()
    (tmp_path / "other.jsonl").write_text(text.replace('"s0"', '"x"').splitlines()[0] + "\n")
    url = serve(lambda number, body: fail(400)).url
    result = tell("agreement", sources[0], *(option.replace("URL", url) for option in options))
    assert (result.code, message in result.err) == (2, True), result
