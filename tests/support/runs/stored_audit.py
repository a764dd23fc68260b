"""An audit's table and figures in a run's folder."""

from pathlib import Path
from typing import Any

from trained_run import write_table

from rubricworks.evaluation.audit.summary import AuditSummary, ResponseCount, parse_audit_row, table_cells
from rubricworks.evaluation.audit.values import ANNOTATIONS, Annotation
from rubricworks.rubrics import Criterion, Rubric, Scorecard, Verdict

RUBRIC = Rubric(criteria=(Criterion(criterion="Answer <i>3</i>", weight=3), Criterion(criterion="Colour", weight=1)))


def audit_row(sample: str, mode: str, credits: tuple[float, ...]) -> dict[str, Any]:
    """A response judged by two criteria, neither of which it meets."""
    names = [criterion.criterion for criterion in RUBRIC.criteria]
    verdicts = tuple(
        Verdict(criterion=name, credit=credit, reasoning="because") for name, credit in zip(names, credits, strict=True)
    )
    annotations = tuple(Annotation(criterion=name, credit=0) for name in names)
    card = Scorecard(sample_id=sample, response=f"r of {sample}", judge="j", verdicts=verdicts)
    return {
        **{"sample_id": sample, "mode": mode, "setting": "text", "judge": "j", "question": "q <script>"},
        **{"response": f"r of {sample}", "rubric": RUBRIC.model_dump_json(), "scorecard": card.model_dump_json()},
        **{"annotations": ANNOTATIONS.dump_json(annotations).decode(), "attack": None},
    }


def write_audit(folder: Path) -> None:
    """An audit with undeserved credit on three of four responses."""
    rows = [
        *(audit_row("x", "irrelevant", (1, 0)), audit_row("y", "wrong_but_plausible", (1, 1))),
        *(audit_row("z", "irrelevant", (0, 0)), audit_row("w", "wrong_but_plausible", (0, 1))),
    ]
    write_table(folder, "audit", rows)
    counts = {"irrelevant": ResponseCount(wanted=2, found=2), "wrong_but_plausible": ResponseCount(wanted=2, found=2)}
    cells = table_cells(map(parse_audit_row, rows))
    figures = AuditSummary(judge="j", settings=cells, responses=counts, attacks={})
    (folder / "audit.json").write_text(figures.model_dump_json())
