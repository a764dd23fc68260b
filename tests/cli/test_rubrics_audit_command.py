"""`rubricworks rubrics audit` as at a terminal: figures, a page, and a refusal by exit code."""

import json
import re
from pathlib import Path

import pytest
from criteria_readings import also_reads, criteria_to_read, say_readings
from scripted_server import Said, fail, say

from rubricworks.data.rubric_sets import read_rubric_set
from rubricworks.evaluation.rubric_audit import READING_PROMPT_VERSION, RubricAudit, RubricFixes
from rubricworks.grading.prompts import JUDGE_PROMPT_VERSION

RUBRIC_FILES = Path(__file__).parents[1] / "data" / "rubric_files"

ROWS = [
    {"sample_id": "s1", "rubric": {"criteria": [{"criterion": "names the cup", "weight": 3}]}},
    {"sample_id": "s2", "rubric": {"criteria": [{"criterion": "<b>names</b> the bird", "weight": 1}]}},
]
RESPONSES = [
    {"sample_id": "s1", "response": "A cup stands here."},
    {"sample_id": "s2", "response": "A bird sits here."},
]


@also_reads
def word_judge(_, body):
    text = body["messages"][1]["content"]
    caption = text.split("<caption>\n")[1]
    criteria = json.loads(text.split("<criteria>\n")[1].split("\n</criteria>")[0])
    scores = [{"id": c["id"], "reasoning": "", "score": int(c["criterion"].split()[-1] in caption)} for c in criteria]
    return say(json.dumps({"verdicts": scores}))


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path.name


def test_rubrics_that_reward_naming_everything_are_flagged_refused_and_shown(tell, tmp_path, serve):
    server = serve(word_judge)
    rubrics, responses = write(tmp_path / "rubrics.jsonl", ROWS), write(tmp_path / "responses.jsonl", RESPONSES)
    arguments = ("rubrics", "audit", rubrics, "--responses", responses, "--judge", f"j@{server.url}")
    told = tell(*arguments)
    assert told.code == 0, told.err
    assert "flagged: 100%" in told.out.replace("\u202f", "")
    assert "presence only" in told.out
    audit = RubricAudit.model_validate_json((tmp_path / "rubric-audit" / "audit.json").read_text())
    assert audit.by_flag == {"presence only": 2}
    assert audit.calls == 20
    asked = len(server.chats)
    assert asked == 18 + 2  # one criterion in reverse is the question of before; one call reads each rubric
    assert audit.readings == 2
    assert "in 20 gradings and 2 readings by j" in told.out
    page = (tmp_path / "rubric-audit" / "audit.html").read_text()
    assert "What was graded" in page
    assert "nothing at all" in page
    assert "&lt;b&gt;names&lt;/b&gt; the bird" in page
    again = tell(*arguments, "--refuse", "0.5")
    assert (again.code, len(server.chats)) == (1, asked)
    assert "refused: 100% of 2 audited rubrics are flagged, and at most 50% are allowed" in again.err.replace(
        "\u202f", ""
    )


def test_a_rubric_alone_is_tried_on_what_is_its_own_and_passes_no_gate(tell, tmp_path, serve):
    server = serve(guarding)
    rubrics, responses = write(tmp_path / "rubrics.jsonl", ROWS[:1]), write(tmp_path / "responses.jsonl", RESPONSES)
    arguments = ("rubrics", "audit", rubrics, "--responses", responses, "--judge", f"j@{server.url}", "--refuse", "0.5")
    told = tell(*arguments)
    assert told.code == 1, told.err
    assert "1 rubric with 1 criterion in 8 gradings and 1 reading by j" in told.out
    assert (
        "1 rubric has no flag, but was not wholly tested; untested: presence only in 1, not about it in 1" in told.out
    )
    assert "one rubric alone is not tried on another sample's response" in told.out
    refusal = told.err.replace("\u202f", "")
    assert "0% of 1 audited rubric is flagged and 100% not wholly tested, and at most 50% are allowed" in refusal
    assert "audit it beside a rubric of another sample" in refusal
    (finding,) = RubricAudit.model_validate_json((tmp_path / "rubric-audit" / "audit.json").read_text()).findings
    assert (finding.rewards["empty"], finding.rewards["other"], finding.rewards["everything"]) == (0, None, None)
    assert finding.gap == 1
    page = (tmp_path / "rubric-audit" / "audit.html").read_text()
    assert "of 1 rubric is flagged" in page


def test_a_rewrite_of_a_rubric_alone_is_kept(tell, tmp_path, serve):
    flagged = {"sample_id": "s1", "rubric": {"criteria": [{"criterion": "names a zebra", "weight": 3}]}}
    item = {"criterion": "names the cup", "description": "", "evaluation_rule": "", "weight": 3}

    def writer(number, body):
        edits = {"replace": [{"id": 1, "by": [item]}], "add": []}
        return say(json.dumps(edits)) if body["model"] == "w" else word_judge(number, body)

    url = serve(writer).url
    rubrics, responses = write(tmp_path / "rubrics.jsonl", [flagged]), write(tmp_path / "responses.jsonl", RESPONSES)
    told = tell(*("rubrics", "audit", rubrics, "--responses", responses, "--judge", f"j@{url}", "--fix", f"w@{url}"))
    assert told.code == 0, told.err
    assert "never met          1 rubric   no response of the sample meets it" in told.out
    assert "w rewrote 1 of 1 flagged rubric; 1 rewrite has fewer flags than before and is kept" in told.out
    page = (tmp_path / "rubric-audit" / "audit.html").read_text()
    assert "<li>w rewrote 1 of 1 flagged rubric; 1 rewrite has fewer flags than before and is kept</li>" in page
    assert "<li>gap with it: " in page


def test_a_writer_of_the_judges_name_is_no_change_of_the_judge(tell, tmp_path, serve):
    flagged = {"sample_id": "s1", "rubric": {"criteria": [{"criterion": "names a zebra", "weight": 3}]}}

    def as_model(name, answer):
        said = json.loads(answer.body) | {"model": name}
        return Said(json.dumps(said).encode())

    judging = serve(lambda number, body: as_model("j-1", word_judge(number, body)))
    writing = serve(lambda number, body: as_model("w-9", say(json.dumps({"replace": [], "add": []}))))
    rubrics, responses = write(tmp_path / "rubrics.jsonl", [flagged]), write(tmp_path / "responses.jsonl", RESPONSES)
    told = tell(
        *("rubrics", "audit", rubrics, "--responses", responses),
        *("--judge", f"j@{judging.url}", "--fix", f"j@{writing.url}"),
    )
    assert told.code == 0, told.err
    assert "w-9" in (tmp_path / "rubric-audit" / "identities.json").read_text()
    assert "w-9" not in (tmp_path / "rubric-audit" / "audit.json").read_text()
    assert "several models" not in told.out


def test_what_is_missing_is_named_before_anything_is_paid_for(tell, tmp_path, serve):
    server = serve(word_judge)
    rubrics = write(tmp_path / "rubrics.jsonl", ROWS)
    told = tell("rubrics", "audit", rubrics, "--judge", f"j@{server.url}")
    assert told.code == 2
    assert "give --responses" in told.err
    write(tmp_path / "responses.jsonl", [{"sample_id": "s1", "answer": "x"}])
    told = tell("rubrics", "audit", rubrics, "--responses", "responses.jsonl", "--judge", f"j@{server.url}")
    assert "no column response" in told.err
    assert server.chats == []


def test_the_judges_identity_and_cost_are_told_and_kept(tell, tmp_path, serve):
    def stated(number, body):
        answer = json.loads(word_judge(number, body).body) | {"model": "j-2026-01", "system_fingerprint": "fp_1"}
        answer["usage"] = {"prompt_tokens": 1000, "completion_tokens": 100}
        return Said(json.dumps(answer).encode())

    server = serve(stated)
    rubrics, responses = write(tmp_path / "rubrics.jsonl", ROWS), write(tmp_path / "responses.jsonl", RESPONSES)
    arguments = ("rubrics", "audit", rubrics, "--responses", responses, "--judge", f"j@{server.url}")
    told = tell(*arguments, "--prices", "1,10", "--revision", "r7")
    assert told.code == 0, told.err
    out = told.out.replace("\u202f", "")
    assert "j answers as j-2026-01 (fp_1), revision r7, prompt " in out
    assert "cost: 22 calls, 2 of them answered by the cache, 20,000 tokens in, 2,000 out, $0.04, " in out
    assert "of a rubric: 10.0 calls, 10,000 tokens in, 1,000 out, $0.02" in out
    audit = RubricAudit.model_validate_json((tmp_path / "rubric-audit" / "audit.json").read_text())
    (entry,) = audit.identities
    assert (entry.identity, entry.revision) == (("j-2026-01", "fp_1"), "r7")
    assert set(entry.prompts) == {JUDGE_PROMPT_VERSION, READING_PROMPT_VERSION}
    assert (audit.cost.calls, audit.cost.dollars) == (22, pytest.approx(0.04))
    page = (tmp_path / "rubric-audit" / "audit.html").read_text()
    assert "j answers as j-2026-01 (fp_1)" in page
    assert "<li>cost: 22 calls" in page
    again = tell(*arguments, "--revision", "r7")  # of the cache alone, and without prices
    assert "j answers as j-2026-01 (fp_1)" in again.out
    assert "cost: 22 calls, 22 of them answered by the cache, 0 tokens in, 0 out, 0." in again.out
    told = tell(*arguments, "--prices", "1")
    assert (told.code, "--prices is '1'; write two or three numbers" in told.err) == (2, True)


def test_a_judge_that_becomes_another_model_is_told_or_ends_the_audit(tell, tmp_path, serve):
    def moved(number, body):
        answer = json.loads(word_judge(number, body).body) | {"model": "j-1" if number < 5 else "j-2"}
        return Said(json.dumps(answer).encode())

    rubrics, responses = write(tmp_path / "rubrics.jsonl", ROWS), write(tmp_path / "responses.jsonl", RESPONSES)
    arguments = ("rubrics", "audit", rubrics, "--responses", responses, "--judge")
    told = tell(*arguments, f"j@{serve(moved).url}", "--on-change", "refuse", "--out", "strict")
    assert told.code == 2
    # Answers of calls side by side come in any order.
    assert re.search(r"answered as j-[12] before, and now as j-[12]; ", told.err), told.err
    assert "or give --on-change warn" in told.err
    told = tell(*arguments, f"j@{serve(moved).url}")
    assert told.code == 0, told.err
    assert re.search(r"later as j-[12]", told.out), told.out
    assert "these are several models" in told.out
    audit = RubricAudit.model_validate_json((tmp_path / "rubric-audit" / "audit.json").read_text())
    assert audit.several_models


def test_rows_without_a_response_are_skipped_and_counted(tell, tmp_path, serve):
    server = serve(word_judge)
    rubrics = write(tmp_path / "rubrics.jsonl", ROWS)
    more = [{"sample_id": "s1", "response": None}, {"sample_id": "s2"}, {"sample_id": "s2", "response": ""}]
    responses = write(tmp_path / "responses.jsonl", more + RESPONSES)
    arguments = ("rubrics", "audit", rubrics, "--responses", responses, "--judge", f"j@{server.url}")
    told = tell(*arguments)
    assert told.code == 0, told.err
    assert "responses.jsonl: 3 of 5 rows have no response; skipped" in told.err
    assert "2 rubrics with 2 criteria" in told.out


def test_a_response_that_is_no_text_is_named(tell, tmp_path):
    rubrics = write(tmp_path / "rubrics.jsonl", ROWS)
    responses = write(tmp_path / "responses.jsonl", [*RESPONSES, {"sample_id": "s2", "response": 5}])
    told = tell("rubrics", "audit", rubrics, "--responses", responses, "--judge", "j@http://unused/v1")
    assert (told.code, "row 3, of s2: the response is 5, and not a text" in told.err) == (2, True)


def test_a_folder_that_holds_no_table_is_told_with_what_to_name(tell, tmp_path):
    rubrics, folder = write(tmp_path / "rubrics.jsonl", ROWS), tmp_path / "captions"
    folder.mkdir()
    arguments = ("rubrics", "audit", rubrics, "--responses", "captions", "--judge", "j@http://unused/v1")
    told = tell(*arguments)
    assert (told.code, "captions: there is no table here; name a .parquet or .jsonl file" in told.err) == (2, True)
    for name in ("captions.jsonl", "others.jsonl"):
        write(folder / name, RESPONSES)
    assert "name a file in it, such as captions.jsonl, or" in tell(*arguments).err


def test_the_folder_that_caption_wrote_holds_the_responses(tell, tmp_path, serve):
    rubrics, folder = write(tmp_path / "rubrics.jsonl", ROWS), tmp_path / "captions"
    folder.mkdir()
    write(folder / "captions.jsonl", RESPONSES)
    (folder / "ledger.jsonl").write_text("{}\n")
    judge = f"j@{serve(word_judge).url}"
    told = tell("rubrics", "audit", rubrics, "--responses", "captions", "--judge", judge)
    assert (told.code, "flagged: 100" in told.out) == (0, True), told


def test_a_judge_that_answers_nothing_is_an_error_and_no_clean_audit(tell, tmp_path, serve):
    rubrics, responses = write(tmp_path / "rubrics.jsonl", ROWS), write(tmp_path / "responses.jsonl", RESPONSES)
    server = serve(lambda *_: fail(400))
    told = tell("rubrics", "audit", rubrics, "--responses", responses, "--judge", f"j@{server.url}")
    assert told.code == 2
    assert "no probe could be judged" in told.err


@also_reads
def guarding(_, body):
    """The judge, and a writer that asks for one thing alone."""
    if body["model"] != "w":
        text = body["messages"][1]["content"]
        caption = text.split("<caption>\n")[1]
        criteria = json.loads(text.split("<criteria>\n")[1].split("\n</criteria>")[0])
        things = [word in caption for word in ("cup", "bird")]
        scores = [
            {"id": c["id"], "reasoning": "", "score": int(sum(things) == 1 if c["criterion"] == "one thing" else
             c["criterion"].split()[-1] in caption)}
            for c in criteria
        ]  # fmt: skip
        return say(json.dumps({"verdicts": scores}))
    new = [
        {"criterion": title, "description": "", "evaluation_rule": "<i>strict</i>", "weight": 1.5}
        for title in ("one thing", "says here")
    ]
    return say(json.dumps({"replace": [], "add": new}))


def test_flagged_rubrics_are_rewritten_beside_the_old_ones_which_stay(tell, tmp_path, serve):
    server = serve(guarding)
    rubrics, responses = write(tmp_path / "rubrics.jsonl", ROWS), write(tmp_path / "responses.jsonl", RESPONSES)
    before = (tmp_path / "rubrics.jsonl").read_bytes()
    arguments = ("--responses", responses, "--judge", f"j@{server.url}", "--fix", f"w@{server.url}")
    told = tell("rubrics", "audit", rubrics, *arguments, "--refuse", "0")
    assert told.code == 0, told.err
    assert "w rewrote 2 of 2 flagged rubrics; 2 rewrites have fewer flags than before and are kept" in told.out
    assert "cost of the writer: 2 calls, " in told.out
    assert (tmp_path / "rubrics.jsonl").read_bytes() == before
    fixed = [json.loads(line) for line in (tmp_path / "rubric-audit" / "fixed.jsonl").read_text().splitlines()]
    assert [[c["criterion"] for c in json.loads(row["rubric"])["criteria"]] for row in fixed] == [
        ["names the cup", "one thing", "says here"],
        ["<b>names</b> the bird", "one thing", "says here"],
    ]
    fixes = RubricFixes.model_validate_json((tmp_path / "rubric-audit" / "fixes.json").read_text())
    assert [(len(rewrite.before.flags), len(rewrite.after.flags)) for rewrite in fixes.rewrites] == [(1, 0), (1, 0)]
    page = (tmp_path / "rubric-audit" / "audit.html").read_text()
    assert "Rewritten, kept" in page
    assert "&lt;i&gt;strict&lt;/i&gt;" in page
    told = tell("rubrics", "audit", "rubric-audit/fixed.jsonl", *arguments)
    assert (told.code, "would be overwritten" in told.err) == (2, True)
    told = tell("rubrics", "audit", "rubric-audit/fixed.jsonl", *arguments, "--out", "again")
    assert "flagged: 0%" in told.out.replace("\u202f", "")
    assert not (tmp_path / "again" / "fixes.json").exists()


def test_repeated_draws_tell_how_often_the_judge_contradicts_itself(tell, tmp_path, serve):
    @also_reads
    def fickle(number, body):
        said = json.loads(json.loads(word_judge(number, body).body)["choices"][0]["message"]["content"])
        for verdict in said["verdicts"]:
            verdict["score"] = int(not verdict["score"]) if body["seed"] == 1 else verdict["score"]
        return say(json.dumps(said))

    server = serve(fickle)
    rubrics, responses = write(tmp_path / "rubrics.jsonl", ROWS), write(tmp_path / "responses.jsonl", RESPONSES)
    told = tell(
        *("rubrics", "audit", rubrics, "--responses", responses, "--judge", f"j@{server.url}"),
        *("--repeats", "3", "--temperature", "0.7"),
    )
    # Of three draws the second differs: two of three pairs.
    assert "when the same is asked again: 67%" in told.out.replace("\u202f", "")
    audit = RubricAudit.model_validate_json((tmp_path / "rubric-audit" / "audit.json").read_text())
    assert audit.flips.value == pytest.approx(2 / 3)
    assert {heard.body["temperature"] for heard in server.chats} == {0.7}
    assert len(server.chats) == 18 + 2 + 2 * 2  # the first draw is that of the audit


def test_rubrics_without_a_response_are_counted_and_half_of_a_set_must_be_audited(tell, tmp_path, serve):
    server = serve(guarding)
    fixed = [{"criterion": title, "weight": 1} for title in ("one thing", "says here")]
    rows = [{**row, "rubric": {"criteria": [*row["rubric"]["criteria"], *fixed]}} for row in ROWS]
    more = [{**rows[0], "sample_id": f"t{at}"} for at in range(3)]
    rubrics, responses = write(tmp_path / "rubrics.jsonl", rows + more), write(tmp_path / "responses.jsonl", RESPONSES)
    arguments = ("--responses", responses, "--judge", f"j@{server.url}", "--refuse", "0.5")
    told = tell("rubrics", "audit", rubrics, *arguments)
    assert told.code == 1
    assert "3 of 5 rubrics were not audited: their samples have no response" in told.out
    assert "refused: too little was audited: 3 of 5 rubrics" in told.err
    assert json.loads((tmp_path / "rubric-audit" / "audit.json").read_text())["unaudited"] == 3
    assert "3 of 5 rubrics were not audited" in (tmp_path / "rubric-audit" / "audit.html").read_text()
    write(tmp_path / "rubrics.jsonl", rows + more[:2])
    told = tell("rubrics", "audit", rubrics, *arguments)
    assert told.code == 0, told.err
    assert "2 of 4 rubrics were not audited" in told.out


def test_a_judge_that_cannot_read_criteria_passes_no_rubric_as_sound(tell, tmp_path, serve):
    def grades_only(number, body):
        return say("Which caption?") if criteria_to_read(body) else guarding(number, body)

    fixed = [{"criterion": title, "weight": 1} for title in ("one thing", "says here")]
    rows = [{**row, "rubric": {"criteria": [*row["rubric"]["criteria"], *fixed]}} for row in ROWS]
    rubrics, responses = write(tmp_path / "rubrics.jsonl", rows), write(tmp_path / "responses.jsonl", RESPONSES)
    arguments = ("rubrics", "audit", rubrics, "--responses", responses, "--refuse", "0.5", "--judge")
    told = tell(*arguments, f"j@{serve(grades_only).url}")
    assert told.code == 1
    assert "2 of 2 rubrics could not be read by the judge" in told.out
    assert "untested: compound in 2" in told.out
    assert "2 of 2 rubrics could not be read" in (tmp_path / "rubric-audit" / "audit.html").read_text()
    assert tell(*arguments, f"j@{serve(guarding).url}", "--out", "read").code == 0


def test_compound_criteria_that_the_judge_finds_are_flagged_for_a_second_call(tell, tmp_path, serve):
    faults = {"joined": ["names the cup"], "acts": ["praises the cup"]}

    def judge(number, body):
        criteria = criteria_to_read(body)
        return say_readings(criteria, **faults) if criteria else word_judge(number, body)

    criteria = [{"criterion": title, "weight": 1} for title in ("names the cup", "praises the cup")]
    rows = [ROWS[0] | {"rubric": {"criteria": criteria}}, ROWS[1]]
    rubrics, responses = write(tmp_path / "rubrics.jsonl", rows), write(tmp_path / "responses.jsonl", RESPONSES)
    told = tell("rubrics", "audit", rubrics, "--responses", responses, "--judge", f"j@{serve(judge).url}")
    assert told.code == 0, told.err
    audit = RubricAudit.model_validate_json((tmp_path / "rubric-audit" / "audit.json").read_text())
    flags = {(flag.flag, flag.criterion) for flag in audit.findings[0].flags}
    assert {("compound", "names the cup"), ("parroted", "praises the cup")} <= flags
    assert audit.readings == 3
    page = (tmp_path / "rubric-audit" / "audit.html").read_text()
    assert "it asks for 2 things: &#39;the one&#39;; &#39;the other&#39;" in page


def test_rubrics_that_were_not_wholly_judged_do_not_pass_as_sound(tell, tmp_path, serve):
    @also_reads
    def failing(_, body):
        """No answer about the texts with everything thrown in, which decide whether naming all pays."""
        caption = body["messages"][1]["content"].split("<caption>\n")[1]
        return fail(400) if "cup" in caption and "bird" in caption and "meets" not in caption else word_judge(_, body)

    rubrics, responses = write(tmp_path / "rubrics.jsonl", ROWS), write(tmp_path / "responses.jsonl", RESPONSES)
    told = tell(
        *("rubrics", "audit", rubrics, "--responses", responses, "--judge", f"j@{serve(failing).url}"),
        *("--refuse", "0.5"),
    )
    assert told.code == 1, told.out
    assert "2 rubrics have no flag, but were not wholly tested; untested: " in told.out
    assert "presence only in 2" in told.out
    assert "refused: too little was judged: 0% of 2 audited rubrics are flagged and 100% not wholly" in (
        told.err.replace("\u202f", "")
    )


def test_the_judge_of_an_imported_set_is_shown_prompts_and_reference_answers(tell, tmp_path, serve):
    @also_reads
    def one_for_all(_, body):
        criteria = json.loads(body["messages"][1]["content"].split("<criteria>\n")[1].split("\n</criteria>")[0])
        scores = [{"id": criterion["id"], "reasoning": "", "score": 0} for criterion in criteria]
        return say(json.dumps({"verdicts": scores}))

    item = {"title": "Speed", "description": "Essential Criteria: States 12 m/s.", "weight": 5}
    rows = [
        {"question": f"How fast is ball {at}?", "reference_answer": f"12 m/s, {at}.", "rubric": [item]} for at in (1, 2)
    ]
    server, rubrics = serve(one_for_all), write(tmp_path / "rar.jsonl", rows)
    told = tell("rubrics", "audit", rubrics, "--judge", f"j@{server.url}")
    assert told.code == 0, told.err
    gradings = [heard.body for heard in server.chats if criteria_to_read(heard.body) is None]
    texts = [body["messages"][1]["content"] for body in gradings]
    assert {text.split("\n</reference_answer>")[0] for text in texts} == {
        f"<prompt>\nHow fast is ball {at}?\n</prompt>\n\n<reference_answer>\n12 m/s, {at}." for at in (1, 2)
    }
    told = tell(
        "rubrics", "audit", rubrics, "--judge", f"j@{server.url}", "--subject", "caption", "--out", "as-captions"
    )
    assert "<prompt>" not in server.chats[-1].body["messages"][1]["content"]


FOREIGN = ("healthbench.jsonl", "rar.jsonl", "rubrichub_verl.jsonl")
"""Sets with signed weights, in formats of other projects."""


def foreign_set(tmp_path, name):
    """Two rows of a set in its own format, and a response to each."""
    (row, *_) = [json.loads(line) for line in (RUBRIC_FILES / name).read_text().splitlines()]
    second = json.loads(json.dumps(row).replace(row.get("prompt_id", "sci-3"), "second"))
    rubrics = write(tmp_path / name, [row, second])
    entries = list(read_rubric_set(tmp_path / name, note=lambda _: None))
    texts = [{"sample_id": entry.sample_id, "response": f"Answer {at}. It is 42."} for at, entry in enumerate(entries)]
    return rubrics, write(tmp_path / "responses.jsonl", texts), entries


def answering(writer):
    """A judge that credits all, so that each rubric is flagged, and a writer."""

    @also_reads
    def answer(number, body):
        text = body["messages"][1]["content"]
        if body["model"] == "w":
            return writer(json.loads(text.split("<criteria>\n")[1].split("\n</criteria>")[0]))
        if "<checklist>" in text:
            parts = json.loads(text.split("<checklist>\n")[1].split("\n</checklist>")[0])
            given = {"rationale": "", "credit": 1}
            scored = {
                part: [
                    {"criterion": item["criterion"]}
                    | ({"rationale": "", "extracted_value": "42"} if "verifier" in item else given)
                    for item in items
                ]
                for part, items in parts.items()
            }
            return say(json.dumps({"thought": ""} | scored))
        criteria = json.loads(text.split("<criteria>\n")[1].split("\n</criteria>")[0])
        return say(
            json.dumps({"verdicts": [{"id": criterion["id"], "reasoning": "", "score": 1} for criterion in criteria]})
        )

    return answer


def strengthen(criteria):
    """Edits of every criterion, each with its own weight."""
    empty = {"description": "", "evaluation_rule": ""}
    replaced = [
        {
            "id": criterion["id"],
            "by": [{"criterion": f"{at}: {criterion['criterion'][:40]}", "weight": criterion["weight"], **empty}],
        }
        for at, criterion in enumerate(criteria)
    ]
    return say(json.dumps({"replace": replaced, "add": []}))


@pytest.mark.parametrize("name", FOREIGN)
def test_a_writer_that_fails_loses_nothing_of_a_foreign_set(tell, tmp_path, serve, name):
    server = serve(answering(lambda _: fail(400)))
    rubrics, responses, entries = foreign_set(tmp_path, name)
    before = (tmp_path / name).read_bytes()
    told = tell(
        *("rubrics", "audit", rubrics, "--responses", responses, "--judge", f"j@{server.url}"),
        *("--fix", f"w@{server.url}"),
    )
    assert told.code == 0, told.err
    assert "w rewrote 0 of 2 flagged rubrics" in told.out
    assert (tmp_path / name).read_bytes() == before
    fixed = list(read_rubric_set(tmp_path / "rubric-audit" / "fixed.jsonl", note=lambda _: None))
    assert fixed == entries
    page = (tmp_path / "rubric-audit" / "audit.html").read_text()
    assert page.count("Not rewritten") == 2
    assert f"{min(criterion.weight for criterion in entries[0].rubric.criteria):+g} " in page


def test_a_writer_whose_key_is_refused_loses_no_audit(tell, tmp_path, serve):
    server = serve(answering(lambda _: fail(401)))
    rubrics, responses, _ = foreign_set(tmp_path, "rar.jsonl")
    told = tell(
        *("rubrics", "audit", rubrics, "--responses", responses, "--judge", f"j@{server.url}"),
        *("--fix", f"w@{server.url}"),
    )
    assert told.code == 2
    assert (tmp_path / "rubric-audit" / "audit.html").exists()
    assert not (tmp_path / "rubric-audit" / "fixed.jsonl").exists()


@pytest.mark.parametrize("name", FOREIGN)
def test_rewrites_of_a_foreign_set_keep_signs_prompts_and_references(tell, tmp_path, serve, name):
    server = serve(answering(strengthen))
    rubrics, responses, entries = foreign_set(tmp_path, name)
    told = tell(
        *("rubrics", "audit", rubrics, "--responses", responses, "--judge", f"j@{server.url}"),
        *("--fix", f"w@{server.url}"),
    )
    assert told.code == 0, told.err
    assert "w rewrote 2 of 2 flagged rubrics" in told.out
    fixes = RubricFixes.model_validate_json((tmp_path / "rubric-audit" / "fixes.json").read_text())
    for rewrite, entry in zip(fixes.rewrites, entries, strict=True):
        assert rewrite.old == entry.rubric
        assert rewrite.new.weights == entry.rubric.weights
        assert [c.reference for c in rewrite.new.criteria] == [c.reference for c in entry.rubric.criteria]
    fixed = list(read_rubric_set(tmp_path / "rubric-audit" / "fixed.jsonl", note=lambda _: None))
    assert [(entry.sample_id, entry.prompt, entry.reference) for entry in fixed] == [
        (entry.sample_id, entry.prompt, entry.reference) for entry in entries
    ]
    page = (tmp_path / "rubric-audit" / "audit.html").read_text()
    assert page.count("Rewritten, ") == 2
