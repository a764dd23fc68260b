"""The scripted models of each paper's pipeline, by served name."""

from collections.abc import Callable, Mapping

from rubricworks.world.chat import ChatRequest
from rubricworks.world.models.abnormal import (
    QUALITY_JUDGES,
    abnormal_writer_reply,
    quality_judge_reply,
    red_teamer_reply,
)
from rubricworks.world.models.answer_judge import answer_judge_reply
from rubricworks.world.models.assertion_judges import ASSERTION_JUDGES, assertion_judge_reply
from rubricworks.world.models.captioners import PRETRAINING_CAPTIONERS, pretraining_caption, recaptioner_reply
from rubricworks.world.models.checklist_writers import CHECKLIST_WRITERS, checklist_merger_reply, checklist_writer_reply
from rubricworks.world.models.exams import exam_taker_reply, exam_writer_reply
from rubricworks.world.models.facts import fact_judge_reply, graph_parser_reply
from rubricworks.world.models.image_judges import arena_judge_reply, ranking_judge_reply
from rubricworks.world.models.question_rewriter import question_rewriter_reply
from rubricworks.world.models.scorers import SCORERS, scorer_reply
from rubricworks.world.pictures.dpg_questions import picture_questions_reply
from rubricworks.world.pictures.picture_judge import PICTURE_JUDGES, picture_judge_reply
from rubricworks.world.pictures.picture_reader import picture_reader_reply
from rubricworks.world.pictures.picture_scorers import PICTURE_SCORERS, picture_score_reply
from rubricworks.world.pictures.prompt_rubric_writer import prompt_rubric_writer_reply
from rubricworks.world.scene.scene import Scene

Reply = Callable[[ChatRequest, Scene | None, int], str]
"""A model: its reply to a request, given the scene of the request's image (None without one) and the world's seed."""

BALCAPRL_MODELS: Mapping[str, Reply] = {
    "recaptioner": recaptioner_reply,
    **dict.fromkeys(ASSERTION_JUDGES, assertion_judge_reply),
    "arena-judge": arena_judge_reply,
    "exam-writer": exam_writer_reply,
    "exam-taker": exam_taker_reply,
    "fact-judge": fact_judge_reply,
    "graph-parser": graph_parser_reply,
    "ranking-judge": ranking_judge_reply,
}
RLR3_MODELS: Mapping[str, Reply] = {
    **dict.fromkeys(CHECKLIST_WRITERS, checklist_writer_reply),
    "checklist-merger": checklist_merger_reply,
    **dict.fromkeys(SCORERS, scorer_reply),
    "question-opener": question_rewriter_reply,
    "abnormal-writer": abnormal_writer_reply,
    **dict.fromkeys(QUALITY_JUDGES, quality_judge_reply),
    "red-teamer": red_teamer_reply,
    "answer-judge": answer_judge_reply,
}
PRETRAINING_MODELS: Mapping[str, Reply] = dict.fromkeys(PRETRAINING_CAPTIONERS, pretraining_caption)
PICTURE_MODELS: Mapping[str, Callable[[ChatRequest, int], str]] = {
    "prompt-rubric-writer": prompt_rubric_writer_reply,
    **dict.fromkeys(PICTURE_JUDGES, picture_judge_reply),
    "picture-reader": picture_reader_reply,
    "picture-answerer": picture_questions_reply,
    **dict.fromkeys(PICTURE_SCORERS, picture_score_reply),
}
"""Models for text-to-image; a generated picture is none of the world's images, so they get the request and the seed."""
