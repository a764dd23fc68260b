"""RLR³'s protocol over rows of each benchmark's own form: what is asked, what is right, and what is refused."""

import json
from base64 import b64encode
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from audited import write_stage_table
from cli_fixtures import tell as tell
from pydantic import ValidationError
from scripted_server import ScriptedServer, fail, say
from synthetic_run import picture, sample

from rubricworks.data.tables import read_rows
from rubricworks.evaluation.scoreboard import read_scoreboard
from rubricworks.evaluation.scorers.benchmark import BenchmarkScorer
from rubricworks.evaluation.suites.boxed_benchmarks import BOXED_BENCHMARKS, boxed_questions
from rubricworks.evaluation.suites.task_sets import TASK_SETS

RED, BLUE = picture("red"), picture("blue")
CELL, OTHER = {"bytes": RED, "path": "a.png"}, {"bytes": BLUE, "path": "b.png"}
MMMU = {f"image_{at}": CELL if at == 1 else OTHER if at == 2 else None for at in range(1, 8)}
DESCRIPTIVE = {f"descriptive_q{at}": number for at, number in enumerate((1, 10, 18, 11), 1)}
DESCRIPTIVE_ANSWERS = {
    f"descriptive_a{at}": text for at, text in enumerate(("Not Applicable", "3", "1 by 2", "Yes"), 1)
}
ROWS = {
    "wemath_testmini_reasoning": {"question": "How long?", "option": "A. 1; B. 2; C. 3", "answer": "B",
                                  "image_path": CELL},
    "dynamath_reasoning": {"question": "What is 1 + 1?", "ground_truth": "2", "decoded_image": CELL},
    "mathvision_reason_test_reasoning": {"question": "<image1> Which?", "options": ["x", "y"], "answer": "A",
                                         "decoded_image": CELL},
    "mathverse_testmini_reasoning": {"question": "", "query_wo": "", "answer": "7", "image": CELL},
    "mathvista_testmini_cot_reasoning": {"question": "How much?", "choices": ["4", "5"], "answer": "5", "unit": "$",
                                         "decoded_image": CELL},
    "mmmu_pro_reasoning": {"question": "Between <image 1> and <image 2>?", "options": "['this', 'that']", "answer": "B",
                           **MMMU},
    "realworldqa_reasoning": {"question": "Where?\nA. left\nB. right\nPlease answer directly with only the letter.",
                              "answer": "B", "image": CELL},
    "mmstar_reasoning": {"question": "Which?\nOptions: A: cat, B: dog", "answer": "A", "image": RED},
    "simplevqa": {"question": "Who?", "answer": "Marie Curie", "image": b64encode(RED).decode()},
    "countbenchqa_reasoning": {"question": "How many?", "number": 3, "image": CELL},
    "infovqa_val_reasoning": {"question": "What?", "answers": ["ten percent", "10%"], "image": CELL},
    "docvqa_val_reasoning": {"question": "Date?", "answers": ["May 5"], "image": CELL},
    "chartqa_reasoning": {"question": "Value?", "answer": "12", "image": CELL},
    "charxiv_val_descriptive_cot": {**DESCRIPTIVE, **DESCRIPTIVE_ANSWERS, "subplot_loc": None, "subplot_row": 1,
                                    "subplot_col": 2, "image": CELL, "reasoning_q": "Why?", "reasoning_a": "growth"},
}  # fmt: skip
RIGHT = {"How long?": "B", "1 + 1": "2", "Which?\nA. x": "A", "that the image shows.\n": "7",
         "How much?": "B", "Between": "B", "Where?": "B", "cat": "A", "Who?": "a woman named Curie",
         "How many?": "3", "What?": "10%", "Date?": "5 May",
         "Value?": "12", "title": "there is none", "lines does": "3", "layout": "1 by 2", "intersect": "No",
         "Why?": "it grew"}  # fmt: skip
"""Words of a question → what the model says: right by rules, or open, where the judge decides."""


@pytest.fixture
def data(tmp_path) -> Path:
    for benchmark in BOXED_BENCHMARKS:
        if (row := ROWS.get(benchmark.task)) is None:
            continue
        for pattern in benchmark.files:
            file = tmp_path / "data" / benchmark.folder / pattern.replace("**/", "data/").replace("*", "-0")
            file.parent.mkdir(parents=True, exist_ok=True)
            of_file = {"image": CELL, "answer": "A", "options": "[]"} if "vision" in pattern else row
            pq.write_table(pa.Table.from_pylist([of_file]), file)
    return tmp_path / "data"


@pytest.fixture
def measure(tell, data, tmp_path):
    """Evaluate a model by the protocol; the judge accepts what means the same."""
    samples = write_stage_table(tmp_path / "samples", "samples", [sample("a", RED)])

    def answer(_, body):
        content = body["messages"][-1]["content"]
        text = "".join(part["text"] for part in content if part["type"] == "text") if isinstance(content, list) else ""
        if "describe" in text:
            return say("a picture")
        said = next(value for words, value in RIGHT.items() if words in text)
        if said == "7" and "letter" in text:  # the options are in the image
            said = "A"
        return say(f"Step by step. \\boxed{{{said}}}", finish="length" if "Value?" in text else "stop")

    model = ScriptedServer(answer)
    judge = ScriptedServer(lambda *_: run.verdict)

    def run(out="out", with_judge=True, prompts=None, **fields):
        settings = {"set": "rlr3-15", "harness": "answers", "source": str(data), **fields}
        if with_judge:
            settings["judge"] = {"url": judge.url, "model": "judge"}
        evaluation = {"scorers": {"benchmarks": [settings]}, **({"prompts": prompts} if prompts else {})}
        (tmp_path / "s.yaml").write_text(yaml.safe_dump(evaluation))
        done = tell(
            "evaluate", f"mine=m@{model.url}", "--on", samples, "--with", tmp_path / "s.yaml", "--out", tmp_path / out
        )
        return done, tmp_path / out

    run.model, run.judge = model, judge
    run.verdict = say(json.dumps({"reason": "the same", "right": True}))
    yield run
    model.close()
    judge.close()


def test_rules_decide_fixed_forms_and_the_judge_open_answers(measure):
    done, out = measure()
    assert done.code == 0, done.err
    values = {
        row["sample_id"]: row["value"] for row in read_rows(out / "score") if row["scorer"] == "benchmark_rlr3-15"
    }
    wrong = {name for name, value in values.items() if value != 1}
    # An answer that ran into its limit is wrong.
    assert wrong == {"chartqa_reasoning/0"}
    assert {name.partition("/")[0] for name in values} == {benchmark.task for benchmark in TASK_SETS["rlr3-15"]}
    assert sum(name.startswith("charxiv_val_descriptive") for name in values) == 4
    asked = [json.dumps(chat.body["messages"]) for chat in measure.judge.chats]
    assert any("Marie Curie" in text for text in asked)
    assert not any("How long" in text or "How many" in text for text in asked)  # letters and numbers need no judge
    scores = read_scoreboard(out / "score").scores("mine")
    assert scores.means["benchmark_rlr3-15"].value == pytest.approx(14 / 15)
    prompts = {text for chat in measure.model.chats for text in [json.dumps(chat.body["messages"][-1]["content"])]}
    assert not any("Please answer directly" in text for text in prompts)
    assert sum("boxed{}" in text for text in prompts) == len(values)


def test_the_judge_of_open_answers_reads_the_users_words(measure, tmp_path):
    words = tmp_path / "words.txt"
    words.write_text("Q: {question} A: {answer} R: {reference}. Reply with JSON: reason, right.")
    done, out = measure(prompts={"answers": str(words)})
    assert done.code == 0, done.err
    asked = [chat.body["messages"][-1]["content"][0]["text"] for chat in measure.judge.chats]
    assert "Q: Who? A: a woman named Curie R: Marie Curie. Reply with JSON: reason, right." in asked
    (version,) = {row["version"] for row in read_rows(out / "score") if row["scorer"] == "benchmark_rlr3-15"}
    assert ", prompt " in version


def test_images_stand_where_the_question_names_them(data):
    [benchmark] = [benchmark for benchmark in BOXED_BENCHMARKS if benchmark.task == "mmmu_pro_reasoning"]
    standard, vision = boxed_questions(benchmark, data, None)
    kinds = [part["type"] if part["type"] != "text" else part["text"].split("\n")[0] for part in standard.content]
    assert kinds == ["Between ", "image_url", " and ", "image_url", "?"]
    assert [part["type"] for part in vision.content] == ["image_url", "text"]
    assert vision.references[0].answer == "A"


def test_open_answers_without_a_judge_and_a_failing_one_give_no_mean(measure):
    done, out = measure(with_judge=False, tasks=["simplevqa", "dynamath_reasoning"])
    assert done.code == 0, done.err
    scores = read_scoreboard(out / "score").scores("mine")
    assert "open answers need a judge" in scores.incomplete["benchmark_rlr3-15"]["simplevqa"]
    assert scores.tasks["benchmark_rlr3-15"]["dynamath_reasoning"].value == 1
    assert "benchmark_rlr3-15" not in scores.means
    measure.verdict = fail(400, "no")
    done, out = measure(out="failing", tasks=["simplevqa", "dynamath_reasoning"])
    assert done.code == 0, done.err
    scores = read_scoreboard(out / "score").scores("mine")
    assert scores.incomplete == {"benchmark_rlr3-15": {"simplevqa": "the judge failed"}}
    assert "benchmark_rlr3-15" not in scores.means


@pytest.mark.parametrize(
    ("task", "change", "message"),
    [
        ("dynamath_reasoning", {"ground_truth": None, "answer": "2"}, "no field 'ground_truth'; the data of dynamath"),
        ("wemath_testmini_reasoning", {"answer": "F"}, "the answer F is none of its 3 options"),
        ("chartqa_reasoning", {"image": {"bytes": b"none", "path": ""}}, "ChartQA"),
    ],
)
def test_data_of_another_shape_is_one_line_before_any_question(measure, data, task, change, message):
    [benchmark] = [benchmark for benchmark in BOXED_BENCHMARKS if benchmark.task == task]
    [file] = (data / benchmark.folder).rglob("*.parquet")
    row = {name: value for name, value in {**ROWS[task], **change}.items() if value is not None}
    pq.write_table(pa.Table.from_pylist([row]), file)
    done, _ = measure()
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
    assert not any("boxed" in json.dumps(chat.body) for chat in measure.model.chats)


def test_missing_data_and_another_set_are_refused(measure, data):
    for file in (data / "m-a-p").rglob("*.parquet"):
        file.unlink()
    done, _ = measure()
    assert done.code == 2
    assert "hf download m-a-p/SimpleVQA --repo-type dataset --local-dir" in done.err
    with pytest.raises(ValidationError, match="harness: answers is the protocol of rlr3-15, and needs source"):
        BenchmarkScorer.model_validate({"set": "rubicap-10", "harness": "answers", "source": "x"})
