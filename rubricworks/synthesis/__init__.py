"""Rubric synthesis: weighted criteria from a committee of models, for captions and for answers to questions."""

from rubricworks.synthesis.checklist_lint import lint_checklist
from rubricworks.synthesis.checklist_prompts import CHECKLIST_PROMPT_VERSION, ChecklistDraft
from rubricworks.synthesis.checklist_writer import ChecklistResult, ChecklistWriter
from rubricworks.synthesis.pitfalls import PITFALL_PROMPT_VERSION, PitfallResult, PitfallWriter, add_pitfalls
from rubricworks.synthesis.prompts import CAPTION_PROMPT, CAPTION_PROMPT_VERSION, WRITER_PROMPT_VERSION, Coverage
from rubricworks.synthesis.writer import Candidate, RubricResult, RubricWriter

__all__ = [
    "CAPTION_PROMPT",
    "CAPTION_PROMPT_VERSION",
    "CHECKLIST_PROMPT_VERSION",
    "PITFALL_PROMPT_VERSION",
    "WRITER_PROMPT_VERSION",
    "Candidate",
    "ChecklistDraft",
    "ChecklistResult",
    "ChecklistWriter",
    "Coverage",
    "PitfallResult",
    "PitfallWriter",
    "RubricResult",
    "RubricWriter",
    "add_pitfalls",
    "lint_checklist",
]
