"""The scripted models of BalCapRL's pipeline: who answers under which name."""

from collections.abc import Mapping

from rubricworks.world.arena import answer_arena
from rubricworks.world.assertion_judges import ASSERTION_JUDGES, answer_assertion_judge
from rubricworks.world.exams import answer_exam_taker, answer_exam_writer
from rubricworks.world.facts import answer_fact_judge
from rubricworks.world.recaptioner import answer_recaptioner
from rubricworks.world.rlr3 import Answer

BALCAPRL_MODELS: Mapping[str, Answer] = {
    "recaptioner": answer_recaptioner,
    **dict.fromkeys(ASSERTION_JUDGES, answer_assertion_judge),
    "arena-judge": answer_arena,
    "exam-writer": answer_exam_writer,
    "exam-taker": answer_exam_taker,
    "fact-judge": answer_fact_judge,
}
