"""Confidence of verdicts, credits from log-probabilities, and the cascade from a cheap judge to a strong one."""

import asyncio
import json
import math

import pytest
from scripted_server import Said, fail, say

from rubricworks.data.tables import Sample
from rubricworks.errors import UserError
from rubricworks.grading import Cascade, Grader, require_logprobs
from rubricworks.llm import ChatClient, Endpoint
from rubricworks.rubrics import Criterion, Rubric, Scorecard
from rubricworks.world.models.judge import judge_criterion, read_task
from rubricworks.world.models.weak_judges import ERROR_RATE, cheap_judge_logprobs, cheap_judge_reply

RUBRIC = Rubric(criteria=tuple(Criterion(criterion=name, weight=1) for name in ("red", "round", "big")))
SAMPLE = Sample(sample_id="s")


def criteria_in(body):
    text = body["messages"][1]["content"]
    return [criterion["criterion"] for criterion in json.loads(text.split("<criteria>\n")[1].split("\n</criteria>")[0])]


def verdicts(*scores):
    rows = [{"id": at, "reasoning": f"r{at}", "score": score} for at, score in enumerate(scores, start=1)]
    return json.dumps({"verdicts": rows})


def with_probabilities(text, probabilities):
    """The answer, each score a token with this probability of 1."""
    entries, rest = [], text
    for p in probabilities:
        before, _, rest = rest.partition('"score": ')
        digit, rest = rest[0], rest[1:]
        entries.append({"token": f'{before}"score": ', "logprob": 0.0, "top_logprobs": []})
        top = [{"token": digit, "logprob": math.log(q)} for digit, q in (("1", p), ("0", 1 - p))]
        entries.append({"token": digit, "logprob": math.log(p if digit == "1" else 1 - p), "top_logprobs": top})
    said = json.loads(say(text).body)
    said["choices"][0]["logprobs"] = {"content": [*entries, {"token": rest, "logprob": 0.0, "top_logprobs": []}]}
    return Said(json.dumps(said).encode())


def grade(server, make, *, models=("cheap", "strong"), rubric=RUBRIC, **fields) -> Scorecard:
    """Grade one text by the grader that `make` builds from the clients."""

    async def run():
        clients = [ChatClient(Endpoint(url=server.url, model=model, attempts=1, **fields)) for model in models]
        try:
            return await make(*clients).grade(SAMPLE, "a text", rubric)
        finally:
            for client in clients:
                await client.close()

    return asyncio.run(run())


def cascade(below, **options):
    options = {"confidence": "logprob"} | options
    return lambda cheap, strong: Cascade(Grader(cheap, **options), Grader(strong), below=below)


def models(strong=lambda body: say(verdicts(*[0] * len(criteria_in(body)))), probabilities=(0.95, 0.7, 0.02)):
    def answer(_, body):
        if body["model"] == "strong":
            return strong(body)
        return with_probabilities(verdicts(*(int(p > 0.5) for p in probabilities)), probabilities)

    return answer


def test_a_credit_is_the_probability_of_one(serve):
    card = grade(serve(models()), lambda cheap: Grader(cheap, credits="logprob"), models=["cheap"])
    assert card.credits == pytest.approx([0.95, 0.7, 0.02])
    assert [verdict.confidence for verdict in card.verdicts] == pytest.approx([0.95, 0.7, 0.98])
    assert Scorecard.model_validate_json(card.model_dump_json()) == card


def test_without_confidence_a_scorecard_is_as_it_was(serve):
    card = grade(serve([say(verdicts(1, 0, 1))]), Grader, models=["cheap"])
    assert "confidence" not in card.model_dump_json()
    assert card.credits == [1, 0, 1]


def test_the_strong_judge_is_asked_about_the_unsure_criteria_alone(serve):
    server = serve(models())
    card = grade(server, cascade(0.9))
    assert card.credits == [1, 0, 0]
    assert [verdict.confidence for verdict in card.verdicts] == [pytest.approx(0.95), None, pytest.approx(0.98)]
    assert [(chat.body["model"], criteria_in(chat.body)) for chat in server.chats] == [
        ("cheap", ["red", "round", "big"]),
        ("strong", ["round"]),
    ]
    assert (card.judge, len(card.raw)) == ("cheap > strong", 2)


def test_a_sure_judge_is_alone(serve):
    server = serve(models())
    assert grade(server, cascade(0.6)).judge == "cheap"
    assert len(server.chats) == 1


def test_pitfalls_alone_may_be_unsure(serve):
    rubric = Rubric(criteria=(RUBRIC.criteria[0], Criterion(criterion="round", weight=-1), RUBRIC.criteria[2]))
    assert grade(serve(models()), cascade(0.9), rubric=rubric).credits == [1, 0, 0]


def test_strong_judge_takes_what_the_cheap_one_fails_on(serve):
    failing = models()
    server = serve(lambda at, body: fail(400, "no") if body["model"] == "cheap" else failing(at, body))
    assert grade(server, cascade(0.9)).credits == [0, 0, 0]
    broken = grade(serve(models(strong=lambda body: fail(400, "no"))), cascade(0.9))
    assert broken.credits == [1, None, 0]


def test_disagreement_between_draws_is_doubt(serve):
    drawn = {0: (1, 1, 0), 1: (1, 0, 0), 2: (1, 1, 0)}

    def answer(_, body):
        return say(verdicts(0)) if body["model"] == "strong" else say(verdicts(*drawn[body["seed"]]))

    server = serve(answer)
    card = grade(server, cascade(0.9, confidence="repeats", repeats=3), temperature=1.0)
    assert card.credits == [1, 0, 0]
    assert [verdict.confidence for verdict in card.verdicts] == [1.0, None, 1.0]
    assert sorted(chat.body["seed"] for chat in server.chats if chat.body["model"] == "cheap") == [0, 1, 2]
    only_drawn = grade(server, lambda cheap: Grader(cheap, confidence="repeats", repeats=3), models=["cheap"])
    assert only_drawn.credits == [1, 1, 0]
    assert only_drawn.verdicts[1].confidence == pytest.approx(2 / 3)


def test_an_endpoint_without_log_probabilities_is_found_by_one_question(serve):
    server = serve([say(verdicts(1))])

    async def run():
        async with ChatClient(server.url, "cheap") as judge:
            await require_logprobs(judge)

    with pytest.raises(UserError, match=r"^cheap gives no log-probabilities"):
        asyncio.run(run())
    assert len(server.chats) == 1


def require_of(server):
    async def run():
        async with ChatClient(Endpoint(url=server.url, model="cheap", attempts=1, patience_s=0.1)) as judge:
            await require_logprobs(judge)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "^cheap refuses a question about log-probabilities, .*400.*logprobs are not supported; take an endpoint"),
        (404, "^cheap refuses"),
        (422, "^cheap refuses"),
        (401, "name the variable that holds the key"),
        (403, "name the variable that holds the key"),
    ],
)
def test_an_endpoint_that_refuses_to_be_asked_for_log_probabilities_gives_none(serve, status, message):
    server = serve(lambda _, body: fail(status, "logprobs are not supported") if "logprobs" in body else say("{}"))
    with pytest.raises(UserError, match=message):
        require_of(server)


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_an_endpoint_that_does_not_answer_now_may_give_log_probabilities(serve, status):
    require_of(serve(lambda _, body: fail(status, "later")))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda a, b: Grader([a, b], credits="logprob"), "logprob credits have no majority"),
        (lambda a, b: Grader(a, confidence="repeats"), "repeats is 1; draw at least 2"),
        (lambda a, b: Grader(a, credits="logprob", repeats=2), "logprob credits are not repeated"),
        (lambda a, b: Grader(a, confidence="words"), "confidence is 'words'; choose logprob or repeats"),
        (lambda a, b: Cascade(Grader(a), Grader(b), below=0.4), r"below is 0\.4"),
        (lambda a, b: Cascade(Grader(a), Grader(b), below=0.9), "the cheap grader has no confidence"),
        (lambda a, b: Cascade(Grader([a, b]), Grader(b), below=0.9), "the cheap grader has 2 judges"),
    ],
)
def test_settings_that_do_not_fit_are_refused(serve, make, message):
    with pytest.raises(UserError, match=message):
        grade(serve([]), make)


def test_the_scripted_cheap_judge_errs_and_doubts_as_it_says():
    rule = "Passes if the caption names a circle at the top left. Fails if it names none there."
    wrong, doubts, told = 0, 0.0, 0
    for number in range(3_000):
        caption = f"there is a red circle at the top left . {number}"
        rows = [{"id": 1, "criterion": "c", "description": "", "evaluation_rule": rule}]
        prompt = f"<criteria>\n{json.dumps(rows)}\n</criteria>\n\n<caption>\n{caption}\n</caption>"
        text = cheap_judge_reply(prompt)
        score = json.loads(text)["verdicts"][0]["score"]
        wrong += score != judge_criterion("c", rule, read_task(prompt).caption, error_rate=0)[0]
        entries = cheap_judge_logprobs(prompt, text)
        assert "".join(entry["token"] for entry in entries) == text
        doubt = 1 - math.exp(entries[1]["logprob"])
        doubts += doubt
        told += doubt <= 0.5
    assert wrong / 3_000 == pytest.approx(ERROR_RATE, abs=0.02)
    assert doubts / 3_000 == pytest.approx(ERROR_RATE, abs=0.01)
    assert told == 3_000
