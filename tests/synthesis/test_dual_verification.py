"""The reference answer is graded by the finished checklist: what it does not satisfy was made wrongly (RLR³, B.1)."""

import json

import pytest
from scripted_checklists import ANSWER, SAMPLE, STEP, WRONG, checklist, models, scoring, titles, write
from scripted_server import fail

from rubricworks.rubrics import ErrorClass, Scorecard, Verdict
from rubricworks.synthesis.checklist_lint import NOTHING_ESSENTIAL
from rubricworks.synthesis.checklist_writer import NOT_EXAMINED, UNSATISFIED


def test_essential_criterion_that_the_reference_fails_is_dropped(serve):
    judged = scoring(
        (ANSWER["criterion"], "expr_verify(predict='3')"), (WRONG["criterion"], "expr_verify(predict='3')")
    )
    server = serve(models({"one": checklist(ANSWER, WRONG, additional=[STEP]), "judge": judged}))
    result = write(server, teachers=["one"], merger=None, examiner="judge")
    assert titles(result) == [ANSWER["criterion"], STEP["criterion"]]
    assert result.dropped == ((WRONG["criterion"], UNSATISFIED),)
    request = json.dumps(server.chats[-1].body["messages"])
    assert "boxed{3}" in request
    assert STEP["criterion"] not in request
    assert "target=" not in request


def test_half_satisfied_is_not_satisfied_and_nothing_essential_left_is_no_rubric(serve):
    fuzzy = {**ANSWER, "reference": "a handful"}
    server = serve(models({"one": checklist(fuzzy), "judge": scoring((fuzzy["criterion"], 0.5))}))
    result = write(server, teachers=["one"], merger=None, examiner="judge")
    assert result.rubric is None
    assert result.dropped == ((fuzzy["criterion"], UNSATISFIED), ("", NOTHING_ESSENTIAL))


def test_an_examiner_that_fails_leaves_no_rubric_instead_of_an_unexamined_one(serve):
    server = serve(models({"one": checklist(ANSWER), "judge": fail(400)}))
    result = write(server, teachers=["one"], merger=None, examiner="judge")
    assert result.rubric is None
    assert result.dropped == ((ANSWER["criterion"], NOT_EXAMINED),)


class UnreadableTarget:
    """Grades as a verifier does that cannot read its target."""

    async def grade(self, sample, response, rubric):
        verdicts = tuple(
            Verdict(criterion=criterion.criterion, credit=1.0)
            if criterion.criterion == ANSWER["criterion"]
            else Verdict(criterion=criterion.criterion, error=ErrorClass.UNVERIFIABLE)
            for criterion in rubric.criteria
        )
        return Scorecard(sample_id=sample.sample_id, response=response, judge="j", verdicts=verdicts)


def test_an_essential_criterion_whose_target_turns_out_unreadable_is_dropped(serve):
    result = write(
        serve(models({"one": checklist(ANSWER, WRONG)})), teachers=["one"], merger=None, examiner=UnreadableTarget()
    )
    assert titles(result) == [ANSWER["criterion"]]


@pytest.mark.parametrize("change", [{"trust_answers": False}, {"sample": SAMPLE.model_copy(update={"answer": None})}])
def test_nothing_is_examined_without_an_answer_that_is_trusted(serve, change):
    server = serve(models({"one": checklist(ANSWER)}))
    result = write(server, teachers=["one"], merger=None, examiner="judge", **change)
    assert titles(result) == [ANSWER["criterion"]]
    assert len(server.chats) == 1
