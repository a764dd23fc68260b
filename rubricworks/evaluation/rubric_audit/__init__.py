"""Audit of rubrics before they train: probes that show whether a rubric can be gamed, and flags on its criteria."""

from rubricworks.evaluation.rubric_audit.flags import CriterionFlag, RubricFinding, examine
from rubricworks.evaluation.rubric_audit.probes import Probe, make_probes
from rubricworks.evaluation.rubric_audit.run import RubricAudit, audit_rubrics

__all__ = ["CriterionFlag", "Probe", "RubricAudit", "RubricFinding", "audit_rubrics", "examine", "make_probes"]
