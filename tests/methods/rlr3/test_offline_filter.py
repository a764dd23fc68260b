"""The offline filter: flags and means against brute force, with a real judge's HTTP and, once, a real tiny model."""

import hashlib
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from asked_questions import prepare_questions, rubrics_table
from criteria_readings import also_reads, criteria_to_read
from scripted_server import Said, ScriptedServer, fail, say

from rubricworks.data.tables import Sample, read_rows, read_samples
from rubricworks.errors import UserError
from rubricworks.evaluation.rubric_audit import RubricAudit
from rubricworks.methods.rlr3.stages import offline_filter
from rubricworks.recipe.estimate import estimate_calls
from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.rewards import group_rewards
from rubricworks.rubrics import Criterion, Rubric, Scorecard, Verdict
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import close_job, open_job
from rubricworks.runtime.launch import launch

CRITERIA = (
    Criterion(criterion="The answer is right.", reference="2", weight=3, essential=True),
    Criterion(criterion="The colour is right.", reference="red", weight=2, essential=True),
    Criterion(criterion="It looks at the left.", reference="left", weight=1, essential=False),
)


def rubric_of(number: int) -> Rubric:
    """Some have an additional criterion, some a single one."""
    return Rubric(criteria=CRITERIA[: 1 + number % 3])


def credit_of(response: str, criterion: str) -> float:
    """Credit of the scripted judge: none once in sixteen times."""
    draw = hashlib.sha256(f"{response}|{criterion}".encode()).digest()[0] % 16
    return 0.0 if draw == 0 else 0.5 if draw < 5 else 1.0


def block(body: dict[str, Any], tag: str) -> str:
    return body["messages"][1]["content"].split(f"<{tag}>\n")[1].split(f"\n</{tag}>")[0]


def judged(_: int, body: dict[str, Any]) -> Said:
    response, checklist = block(body, "response"), json.loads(block(body, "checklist"))

    def scored(items: list[dict[str, str]]) -> list[dict[str, object]]:
        names = [item["criterion"] for item in items]
        return [{"criterion": name, "rationale": "r", "credit": credit_of(response, name)} for name in names]

    return say(json.dumps({"thought": "t", **{part: scored(items) for part, items in checklist.items()}}))


def responses(sample: Sample, count: int = 8) -> list[str]:
    return [f"response {number} to {sample.sample_id}" for number in range(count)]


def draw(samples: list[Sample]) -> list[list[str]]:
    return [responses(sample) for sample in samples]


@pytest.fixture
def inputs(tmp_path) -> dict[str, Path]:
    """16 questions, those of two pictures held out; every seventh training sample has no rubric."""
    samples = Path(prepare_questions(tmp_path / "questions", pictures=16, held_out=4))
    train = list(read_samples(samples, "train", "held_out"))
    rubrics = {sample.sample_id: rubric_of(number) for number, sample in enumerate(train) if number % 7}
    return {"samples": samples, "questions": samples, "rubrics": rubrics_table(tmp_path / "made", rubrics)}


def filtered(
    run: Path, inputs: dict[str, Path], server: ScriptedServer, drawing: Callable[..., Any] = draw, **config: object
) -> Path:
    """Run the stage as `launch` does, but without a model that draws the responses."""
    run.mkdir(exist_ok=True)
    settings = {"judge": {"url": server.url, "model": "judge"}, "shard_size": 5, **config}
    parsed = offline_filter.Config.model_validate(settings)
    job = open_job("offline_filter", parsed, run, inputs)
    try:
        offline_filter.filter_samples(parsed, job, lambda: drawing)
    finally:
        job.calls.close()
    close_job(job, 0.0)
    return job.out


def expected(samples: Path, rubrics: Path) -> dict[str, dict[str, Any]]:
    """Row by row, by hand."""
    by_sample = {row["sample_id"]: json.loads(row["rubric"])["criteria"] for row in read_rows(rubrics)}
    rows = {}
    for sample in read_samples(samples, "train"):
        criteria = by_sample.get(sample.sample_id)
        if criteria is None:
            continue
        table = [[credit_of(text, criterion["criterion"]) for criterion in criteria] for text in responses(sample)]
        weights = [criterion["weight"] for criterion in criteria]
        shares = [sum(w * c for w, c in zip(weights, credits, strict=True)) / sum(weights) for credits in table]
        zeros = {at for credits in table for at, credit in enumerate(credits) if credit < 0.5}
        rows[sample.sample_id] = {
            "any": bool(zeros),
            "essential": any(criteria[at]["essential"] for at in zeros),
            "multiple_choice": bool(sample.options),
            "shares": shares,
        }
    return rows


def test_each_of_several_corpora_has_its_row_of_table_1(tmp_path, serve):
    from rubricworks.evaluation.corpus_statistics import CorpusStatistics, SourceCounts
    from rubricworks.methods.rlr3.stage_sections import corpus_rows

    prepare_questions(tmp_path / "second", pictures=24, held_out=2)
    more = [{"source": str(tmp_path / "second" / "questions.parquet"), "name": "Second"}]
    samples = Path(prepare_questions(tmp_path / "first", pictures=10, held_out=2, name="First", more_corpora=more))
    rubrics = {sample.sample_id: rubric_of(0) for sample in read_samples(samples, "train")}
    inputs = {"samples": samples, "questions": samples, "rubrics": rubrics_table(tmp_path / "made", rubrics)}
    out = filtered(tmp_path / "run", inputs, serve(judged))
    statistics = CorpusStatistics.model_validate_json((out / "statistics.json").read_text())
    source = SourceCounts.model_validate_json((samples / "data.json").read_text())
    place = {row["sample_id"]: row["source"] for row in read_rows(samples)}
    stored = [place[row["sample_id"]] for row in read_rows(out) if row["kept"]]
    for corpus, folder in zip(statistics.corpora, ("first", "second"), strict=True):
        assert corpus.kept == sum(f"/{folder}/" in item for item in stored)
    assert sum(corpus.train for corpus in statistics.corpora) == statistics.train == len(rubrics)
    table = corpus_rows(source, statistics)
    assert [row[0] for row in table] == ["First", "Second", "all"]
    assert [row[2] for row in table] == [20, 28, 48]
    assert table[0][4] + table[1][4] == table[2][4]


def test_prompts_that_are_too_long_get_no_rollouts_and_a_row_with_the_reason(tmp_path, inputs, serve, recwarn):
    train = [sample.sample_id for sample in read_samples(inputs["samples"], "train")]
    too_long = set(train[::3])
    drawing = lambda samples: [[] if sample.sample_id in too_long else responses(sample) for sample in samples]  # noqa: E731
    out = filtered(tmp_path / "run", inputs, serve(judged), drawing, keep="all")
    rows = {row["sample_id"]: row for row in read_rows(out)}
    overlong = {row["sample_id"]: row["reason"] for row in read_rows(out / "overlong")}
    assert set(overlong) == too_long & set(rows)
    assert overlong
    assert set(overlong.values()) == {"its prompt has more than 2048 tokens"}
    assert {name for name, row in rows.items() if not row["kept"]} == set(overlong)
    assert f"{len(overlong)} prompts are longer than filter.max_prompt_tokens" in str(recwarn.list[-1].message)


def test_prompt_is_measured_with_its_image_by_the_models_own_tokens(tmp_path, inputs):
    from rubricworks.methods.rlr3.stages.sampled_responses import response_sampler
    from rubricworks.training.config import TinyConfig
    from rubricworks.training.generate import load_model, prompt_lengths
    from rubricworks.training.tiny.student import build_student

    samples = list(read_samples(inputs["samples"], "train"))[:4]
    shape = TinyConfig(hidden=32, layers=1, heads=2, intermediate=64, vision_hidden=32)
    student = build_student((sample.prompt for sample in samples), tmp_path / "student" / "model", config=shape)
    _, processor = load_model(student)
    bare = prompt_lengths(processor, [None] * 4, [sample.prompt for sample in samples], batch_size=3)
    shown = prompt_lengths(
        processor, [sample.image for sample in samples], [sample.prompt for sample in samples], batch_size=3
    )
    assert [length - len(sample.prompt.split()) for length, sample in zip(bare, samples, strict=True)] == [2] * 4
    assert all(with_image > without for with_image, without in zip(shown, bare, strict=True))
    options = {"each": 2, "temperature": 1.0, "max_new_tokens": 2, "batch_size": 3, "seed": 1}
    draw_some = response_sampler(student.parent, **options, max_prompt_tokens=sorted(shown)[1])
    drawn = [len(texts) for texts in draw_some(samples)]
    assert drawn == [2 if length <= sorted(shown)[1] else 0 for length in shown]


def test_flags_rewards_and_statistics_are_those_of_brute_force(tmp_path, inputs, serve):
    server = serve(judged)
    out = filtered(tmp_path / "run", inputs, server)
    by_hand = expected(inputs["samples"], inputs["rubrics"])
    rows = list(read_rows(out))
    assert [row["sample_id"] for row in rows] == list(by_hand)
    assert len(server.chats) == 8 * len(rows)
    for row in rows:
        hand = by_hand[row["sample_id"]]
        assert {name: row[name] for name in ("any", "essential", "multiple_choice")} == {
            name: hand[name] for name in ("any", "essential", "multiple_choice")
        }
        assert row["kept"] == hand["essential"]
        assert json.loads(row["rewards"]) == pytest.approx(hand["shares"])
        assert row["initial_reward"] == pytest.approx(sum(hand["shares"]) / 8)
    kinds = {(hand["any"], hand["essential"]) for hand in by_hand.values()}
    assert kinds == {(True, True), (True, False), (False, False)}  # else the test would show little

    train = list(read_samples(inputs["samples"], "train"))
    selection = [hand for hand in by_hand.values() if hand["essential"]]
    statistics = json.loads((out / "statistics.json").read_text())
    assert statistics["name"] == "questions"
    assert (statistics["raw"], statistics["deduplicated"], statistics["train"]) == (32, 32, 28)
    assert (statistics["graded"], statistics["kept"]) == (len(by_hand), len(selection))
    assert statistics["filtered_any"] == sum(hand["any"] for hand in by_hand.values())
    assert statistics["filtered_essential"] == len(selection)
    assert statistics["mcq_deduplicated"] == 0.5
    assert statistics["mcq_converted"] == sum(bool(sample.options) for sample in train) / 28
    assert statistics["mcq_filtered"] == sum(hand["multiple_choice"] for hand in selection) / len(selection)
    for name, some in (("converted", list(by_hand.values())), ("filtered", selection)):
        mean = sum(sum(hand["shares"]) / 8 for hand in some) / len(some)
        assert statistics[f"initial_reward_{name}"] == pytest.approx(mean)


@pytest.mark.parametrize("keep", ["any", "all"])
def test_rule_decides_what_is_kept(tmp_path, inputs, serve, keep):
    out = filtered(tmp_path / "run", inputs, serve(judged), keep=keep)
    for row in read_rows(out):
        assert row["kept"] == (row["any"] if keep == "any" else True)


@pytest.mark.usefixtures("quick_retries")
def test_rollouts_that_could_not_be_judged_count_for_nothing_and_leave_dead_letters(tmp_path, inputs, serve):
    failures: set[str] = set()

    def script(number: int, body: dict[str, Any]) -> Said:
        response = block(body, "response")
        if response.startswith(("response 0", "response 3")):
            failures.add(response)
            return fail(400, "no")
        return judged(number, body)

    out = filtered(tmp_path / "run", inputs, serve(script))
    train = read_samples(inputs["samples"], "train")
    by_hand = {sample.sample_id: [text not in failures for text in responses(sample)] for sample in train}
    criteria = {row["sample_id"]: json.loads(row["rubric"])["criteria"] for row in read_rows(inputs["rubrics"])}
    for row in read_rows(out):
        rewards = json.loads(row["rewards"])
        assert [reward is not None for reward in rewards] == by_hand[row["sample_id"]]
        values = [reward for reward in rewards if reward is not None]
        assert row["initial_reward"] == pytest.approx(sum(values) / len(values))
        texts = [f"response {number} to {row['sample_id']}" for number in (1, 2, 4, 5, 6, 7)]
        zeros = [
            item for item in criteria[row["sample_id"]] for text in texts if credit_of(text, item["criterion"]) == 0
        ]
        assert (row["any"], row["essential"]) == (bool(zeros), any(zero["essential"] for zero in zeros))
    letters = list(read_rows(out / "dead_letters"))
    assert {letter["response"] for letter in letters} == failures
    assert {letter["purpose"] for letter in letters} == {"grading by judge"}


def test_sample_of_which_nothing_could_be_judged_is_never_kept(tmp_path, inputs, serve):
    silent = next(row["sample_id"] for row in read_rows(inputs["rubrics"]) if row["sample_id"] in _train(inputs))

    def script(number: int, body: dict[str, Any]) -> Said:
        return say("no JSON") if silent in block(body, "response") else judged(number, body)

    out = filtered(tmp_path / "run", inputs, serve(script), keep="all")
    rows = {row["sample_id"]: row for row in read_rows(out)}
    assert rows[silent]["initial_reward"] is None
    assert not any(rows[silent][name] for name in ("any", "essential", "kept"))
    assert [name for name, row in rows.items() if not row["kept"]] == [silent]
    assert json.loads((out / "statistics.json").read_text())["graded"] == len(rows) - 1


def _train(inputs: dict[str, Path]) -> set[str]:
    return {sample.sample_id for sample in read_samples(inputs["samples"], "train")}


def test_base_model_that_never_fails_leaves_nothing_to_train_on(tmp_path, inputs, serve):
    def perfect(_: int, body: dict[str, Any]) -> Said:
        parts = json.loads(block(body, "checklist")).items()
        full = {part: [{**item, "rationale": "r", "credit": 1} for item in items] for part, items in parts}
        for items in full.values():
            for item in items:
                del item["reference"]
        return say(json.dumps({"thought": "t", **full}))

    with pytest.raises(UserError, match=r"'essential' keeps none of \d+ graded samples.*set keep to any or all"):
        filtered(tmp_path / "run", inputs, serve(perfect))


class Stopped(Exception):
    pass


def test_stopped_half_way_it_goes_on_and_ends_the_same(tmp_path, inputs, serve):
    chunks: list[int] = []

    def stopping(samples: list[Sample]) -> list[list[str]]:
        if len(chunks) == 2:
            raise Stopped
        chunks.append(len(samples))
        return draw(samples)

    server = serve(judged)  # its address is part of the configuration, so both runs ask the same one
    whole = filtered(tmp_path / "whole", inputs, server)
    with pytest.raises(Stopped):
        filtered(tmp_path / "run", inputs, server, stopping)
    draws: list[Sample] = []
    out = filtered(tmp_path / "run", inputs, server, lambda some: draws.extend(some) or draw(some))
    assert len(draws) == len(list(read_rows(out))) - 10
    for name in (
        "filtered/part-00000.parquet",
        "filtered/part-00003.parquet",
        ".manifest.json",
        "statistics.json",
        "done.json",
    ):
        assert (out / name).read_bytes() == (whole / name).read_bytes()


def test_responses_are_drawn_while_the_judge_answers_but_two_shards_ahead_at_most(tmp_path, inputs, serve):
    """The judge answers about the first shard only once the third is drawn."""
    drawn: list[str] = []
    third = threading.Event()
    at_first_answer: list[int] = []

    def drawing(samples: list[Sample]) -> list[list[str]]:
        drawn.append(samples[0].sample_id)
        if len(drawn) == 3:
            third.set()
        return draw(samples)

    def waiting(number: int, body: dict[str, Any]) -> Said:
        if not at_first_answer:
            assert third.wait(60), "the third shard is drawn without an answer about the first"
            at_first_answer.append(len(drawn))
        return judged(number, body)

    server = serve(waiting)
    out = filtered(tmp_path / "ahead", inputs, server, drawing, shard_size=3)
    assert at_first_answer == [3]
    rows = [row["sample_id"] for row in read_rows(out)]
    assert drawn == rows[::3]
    again = filtered(tmp_path / "again", inputs, server, shard_size=3)
    assert (again / "filtered/part-00002.parquet").read_bytes() == (out / "filtered/part-00002.parquet").read_bytes()


def test_tiny_model_draws_different_rollouts_of_every_sample_and_the_same_ones_again(tmp_path, inputs, serve):
    pytest.importorskip("torch")
    from rubricworks.training.config import TinyConfig
    from rubricworks.training.tiny.student import build_student

    small = TinyConfig(
        hidden=32, layers=1, heads=2, intermediate=64, vision_hidden=16, vision_heads=2, patch=8, merge=2, image_side=32
    )
    train = list(read_samples(inputs["samples"], "train"))
    job = open_job("warm_up", StageConfig(), tmp_path / "made", {})
    build_student([f"{sample.prompt} left red 2" for sample in train], job.out / "model", config=small, seed=1)
    close_job(job, 0.0)
    prompts: list[set[str]] = []
    for name in ("one", "two"):
        server = serve(judged)
        config = {"judge": {"url": server.url, "model": "judge"}, "rollouts": 3, "max_new_tokens": 6, "keep": "all"}
        uris = {key: str(path) for key, path in (inputs | {"model": job.out}).items()}
        out = launch("offline_filter", json.dumps(config), str(tmp_path / name), uris)
        prompts.append({block(chat.body, "response") for chat in server.chats})
        rows = list(read_rows(out))
        assert len(rows) == len(expected(inputs["samples"], inputs["rubrics"]))
        assert {len(json.loads(row["rewards"])) for row in rows} == {3}
    assert prompts[0] == prompts[1]
    assert len(prompts[0]) > len(rows)


def gated(careful: bool, samples: Path, made: Path) -> Path:
    """Checklists that ask for their own sample, alone if they are careful, or for any text."""
    rubrics = {}
    for sample in read_samples(samples, "train", "held_out"):
        titles = [f"names {sample.sample_id}", "names one only"] if careful else ["is a text"]
        criteria = tuple(Criterion(criterion=title, reference="as it says", weight=3) for title in titles)
        rubrics[sample.sample_id] = Rubric(criteria=criteria)
    return rubrics_table(made, rubrics)


@also_reads
def word_judged(_: int, body: dict[str, Any]) -> Said:
    response, checklist = block(body, "response"), json.loads(block(body, "checklist"))

    def credit(title: str) -> int:
        if title.startswith("Gives the serial"):
            return 0
        return int({"is a text": True, "names one only": response.count(" to ") == 1}.get(title, title[6:] in response))

    def scored(items: list[dict[str, str]]) -> list[dict[str, object]]:
        names = [item["criterion"] for item in items]
        return [{"criterion": name, "rationale": "r", "credit": credit(name)} for name in names]

    return say(json.dumps({"thought": "t", **{part: scored(items) for part, items in checklist.items()}}))


def test_checklists_are_tried_on_the_rollouts_and_refused_before_any_training(tmp_path, inputs, serve):
    server = serve(word_judged)
    inputs["rubrics"] = gated(False, inputs["samples"], tmp_path / "careless")
    gate = {"judges": [{"url": server.url, "model": "policy-judge"}], "sample": 3}
    with pytest.raises(
        UserError, match=r"filter\.audit: 100.% of 3 audited rubrics .*always met.*set filter\.audit to"
    ):
        filtered(tmp_path / "run", inputs, server, keep="all", audit=gate | {"action": "refuse"})
    out = tmp_path / "run" / "offline_filter"
    assert (out / "audit.html").exists()
    assert not (out / "done.json").exists()
    with pytest.warns(UserWarning, match=r"filter\.audit: 100.% of 3"):
        filtered(tmp_path / "run", inputs, server, keep="all", audit=gate | {"action": "warn"})


def test_sound_checklists_pass_by_the_best_rollouts_and_the_judge_sees_the_question(tmp_path, inputs, serve):
    server = serve(word_judged)
    inputs["rubrics"] = gated(True, inputs["samples"], tmp_path / "careful")
    gate = {"action": "refuse", "judges": [{"url": server.url, "model": "policy-judge"}], "sample": 3}
    worst_first = lambda samples: [["nothing", *responses(sample, 3)] for sample in samples]  # noqa: E731
    out = filtered(tmp_path / "run", inputs, server, worst_first, keep="all", audit=gate)
    audit = RubricAudit.model_validate_json((out / "audit.json").read_text())
    assert audit.by_flag == {}
    assert {finding.rewards["response"] for finding in audit.findings} == {1.0}
    names = {finding.sample_id for finding in audit.findings}
    assert {row["sample_id"] for row in read_rows(out / "audited_responses")} == names
    questions = {sample.question for sample in read_samples(inputs["samples"], "train") if sample.sample_id in names}
    asked = [heard.body for heard in server.chats if heard.body["model"] == "policy-judge"]
    asked = [body for body in asked if criteria_to_read(body) is None]
    assert {block(body, "question") for body in asked} == questions
    assert not (filtered(tmp_path / "plain", inputs, server, keep="all") / "audited_responses").exists()


def test_a_recipe_gives_the_gate_the_policys_judges_and_its_plan_counts_the_calls():
    plain, with_gate = (
        load_recipe(recipe_path("rlr3-laptop"), overrides) for overrides in ([], ["filter.audit=refuse"])
    )
    assert plain.stage_configs()["offline_filter"].audit is None
    audit = with_gate.stage_configs()["offline_filter"].audit
    assert audit.judges == (with_gate.policy.reward.judge,)
    (calls,) = [call for call in estimate_calls(with_gate, 20_000) if call.purpose == "audit"]
    assert (calls.stage, calls.count) == ("offline_filter", 100 * 15)
    (reading,) = [call for call in estimate_calls(with_gate, 20_000) if call.purpose == "audit reading"]
    assert (reading.stage, reading.count) == ("offline_filter", 100 * 2)


@pytest.mark.parametrize(("credit", "fails"), [(0.0, True), (0.3, True), (0.49, True), (0.5, False), (1.0, False)])
@pytest.mark.parametrize(("failing", "rules"), [(0, {"any", "essential"}), (2, {"any"})])
def test_criterion_that_the_reward_counts_as_failed_keeps_its_sample(credit, fails, failing, rules):
    """A verifier gives a wrong text, box or point what is near in it: less than 0.5 fails in training, too."""
    rubric = Rubric(criteria=CRITERIA)
    credits = [credit if at == failing else 1.0 for at in range(len(CRITERIA))]
    verdicts = [Verdict(criterion=of.criterion, credit=of_one) for of, of_one in zip(CRITERIA, credits, strict=True)]
    card = Scorecard(sample_id="s", response="r", judge="j", verdicts=tuple(verdicts))
    graded = offline_filter.grade_sample([card], rubric, multiple_choice=False)
    assert {rule for rule in ("any", "essential") if graded.passes(rule)} == (rules if fails else set())
    gated = group_rewards([credits], rubric.weights, essential=rubric.essential, remap=False)
    assert (gated == [0.0]) == (fails and CRITERIA[failing].essential)
