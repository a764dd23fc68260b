"""Arms of RLR³'s claims, all from one run: both policies, the GenRM's stages, the audited judge's settings.

A share of the GenRM's test or of the audit is one number of a run. Accuracies are those of tasks, whose mean is the
paper's macro average.
"""

from pathlib import Path

from pydantic import RootModel

from rubricworks.claims.scored_arms import Arms
from rubricworks.claims.settings import read_scores
from rubricworks.errors import UserError
from rubricworks.evaluation.audit.summary import AuditSummary
from rubricworks.evaluation.audit.values import SETTINGS
from rubricworks.evaluation.scoreboard import BASE
from rubricworks.methods.rlr3.accuracy import ARMS, Accuracy, read_accuracies
from rubricworks.methods.rlr3.genrm_report import MEASURES, GenrmReport
from rubricworks.reports.run_folder import read_value

_GENRM, _AUDIT = "train_genrm/genrm.json", "audit/audit.json"


class _Models(RootModel[dict[str, GenrmReport]]):
    pass


def read_arms(run: Path) -> Arms:
    """Arm → metric → task or share → value.

    Raises:
        UserError: a file is missing or damaged.
    """
    answers = read_accuracies(read_scores(run, "rlr3"))
    genrm, audit = read_value(run / _GENRM, _Models), read_value(run / _AUDIT, AuditSummary)
    for value, path in ((answers, "score/scores.json"), (genrm, _GENRM), (audit, _AUDIT)):
        if value is None:
            raise UserError(f"{run / path}: missing or empty; delete {(run / path).parent} and run its stage again")
    assert answers is not None
    assert genrm is not None
    assert audit is not None
    arms: Arms = {BASE: {"accuracy": _tasks(answers.base)}}
    for arm in ARMS:
        milestones = answers.arms.get(arm, ())
        arms[arm] = {"accuracy": _tasks(answers.accuracy(arm))} if milestones else {}
        if middle := [point for point in milestones if 2 * point.step <= milestones[-1].step]:
            before, after = _tasks(middle[-1]), _tasks(milestones[-1])
            gains = {task: _difference(after[task], before.get(task)) for task in after}
            arms[arm]["second_half_gain"] = gains
    for stage, report in genrm.root.items():
        shares = {measure: getattr(report, measure) for measure in MEASURES}
        arms[f"genrm_{stage}"] = {measure: {"test": share and share.value} for measure, share in shares.items()}
    for setting in SETTINGS:
        cells = audit.settings.get(setting, {})
        arms[f"audit_{setting}"] = {
            mode: {"audit": cell.average.value if cell.average else None} for mode, cell in cells.items()
        }
    return arms


def _tasks(accuracy: Accuracy) -> dict[str, float | None]:
    return {task: mean.value for task, mean in accuracy.tasks.items()}


def _difference(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else after - before
