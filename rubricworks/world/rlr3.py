"""The scripted models of RLR³'s pipeline: who answers under which name."""

from collections.abc import Callable, Mapping

from rubricworks.world.abnormal import answer_abnormal_writer
from rubricworks.world.abnormal_reviewers import QUALITY_JUDGES, answer_quality_judge, answer_red_teamer
from rubricworks.world.answer_judge import answer_answer_judge
from rubricworks.world.chat import ChatRequest
from rubricworks.world.checklist_merger import answer_checklist_merger
from rubricworks.world.checklist_writers import CHECKLIST_WRITERS, answer_checklist_writer
from rubricworks.world.opener import answer_opener
from rubricworks.world.scene import Scene
from rubricworks.world.scorers import SCORERS, answer_scorer

Answer = Callable[[ChatRequest, Scene | None, int], str]
"""What a model says, given the request, the scene that its image shows (None without an image) and the world's seed."""

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
