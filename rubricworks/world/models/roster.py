"""The scripted models of each paper's pipeline: who answers under which name."""

from collections.abc import Callable, Mapping

from rubricworks.world.chat import ChatRequest
from rubricworks.world.models.abnormal import answer_abnormal_writer
from rubricworks.world.models.abnormal_reviewers import QUALITY_JUDGES, answer_quality_judge, answer_red_teamer
from rubricworks.world.models.answer_judge import answer_answer_judge
from rubricworks.world.models.arena import answer_arena
from rubricworks.world.models.assertion_judges import ASSERTION_JUDGES, answer_assertion_judge
from rubricworks.world.models.checklist_merger import answer_checklist_merger
from rubricworks.world.models.checklist_writers import CHECKLIST_WRITERS, answer_checklist_writer
from rubricworks.world.models.exams import answer_exam_taker, answer_exam_writer
from rubricworks.world.models.facts import answer_fact_judge
from rubricworks.world.models.question_rewriter import answer_opener
from rubricworks.world.models.recaptioner import answer_recaptioner
from rubricworks.world.models.scorers import SCORERS, answer_scorer
from rubricworks.world.scene.scene import Scene

Answer = Callable[[ChatRequest, Scene | None, int], str]
"""What a model says, given the request, the scene that its image shows (None without an image) and the world's seed."""

BALCAPRL_MODELS: Mapping[str, Answer] = {
    "recaptioner": answer_recaptioner,
    **dict.fromkeys(ASSERTION_JUDGES, answer_assertion_judge),
    "arena-judge": answer_arena,
    "exam-writer": answer_exam_writer,
    "exam-taker": answer_exam_taker,
    "fact-judge": answer_fact_judge,
}
RLR3_MODELS: Mapping[str, Answer] = {
    **dict.fromkeys(CHECKLIST_WRITERS, answer_checklist_writer),
    "checklist-merger": answer_checklist_merger,
    **dict.fromkeys(SCORERS, answer_scorer),
    "question-opener": answer_opener,
    "abnormal-writer": answer_abnormal_writer,
    **dict.fromkeys(QUALITY_JUDGES, answer_quality_judge),
    "red-teamer": answer_red_teamer,
    "answer-judge": answer_answer_judge,
}
