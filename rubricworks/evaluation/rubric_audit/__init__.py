"""Audit of rubrics before they train: probes that show whether a rubric can be gamed, and flags on its criteria."""

from rubricworks.evaluation.rubric_audit.fixes import (
    FIX_PROMPT_VERSION,
    Rewrite,
    RubricFix,
    RubricFixes,
    apply_fix,
    fix_messages,
    fix_rubrics,
    with_rubrics,
)
from rubricworks.evaluation.rubric_audit.flags import ADVICE, CriterionFlag, RubricFinding, examine
from rubricworks.evaluation.rubric_audit.probes import Probe, make_image_probes, make_probes
from rubricworks.evaluation.rubric_audit.reading import (
    READING_PROMPT_VERSION,
    CriterionReading,
    RubricReading,
    acts_of,
    read_rubric,
    reading_messages,
)
from rubricworks.evaluation.rubric_audit.run import (
    MAX_CALLS,
    MAX_PROBES,
    MAX_READINGS,
    AuditCost,
    RubricAudit,
    audit_by_images,
    audit_rubrics,
)

__all__ = [
    "ADVICE",
    "FIX_PROMPT_VERSION",
    "MAX_CALLS",
    "MAX_PROBES",
    "MAX_READINGS",
    "READING_PROMPT_VERSION",
    "AuditCost",
    "CriterionFlag",
    "CriterionReading",
    "Probe",
    "Rewrite",
    "RubricAudit",
    "RubricFinding",
    "RubricFix",
    "RubricFixes",
    "RubricReading",
    "acts_of",
    "apply_fix",
    "audit_by_images",
    "audit_rubrics",
    "examine",
    "fix_messages",
    "fix_rubrics",
    "make_image_probes",
    "make_probes",
    "read_rubric",
    "reading_messages",
    "with_rubrics",
]
