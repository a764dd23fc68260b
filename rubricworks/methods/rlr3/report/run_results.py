"""Results in the folder of an RLR³ run, in the values that its stages wrote; missing ones are None or empty."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import RootModel

from rubricworks.data.alarm import Alarm, read_alarm
from rubricworks.evaluation.audit.summary import SUMMARY_FILE, AuditSummary
from rubricworks.evaluation.corpus_statistics import CorpusStatistics, SourceCounts
from rubricworks.evaluation.scoreboard import Scoreboard
from rubricworks.methods.rlr3.accuracy import ARMS, Accuracies, read_accuracies
from rubricworks.methods.rlr3.genrm_report import GenrmReport
from rubricworks.methods.rlr3.genrm_statistics import DataStatistics
from rubricworks.reports.run_folder import read_value, table_rows
from rubricworks.reports.scores import read_board
from rubricworks.rubrics import Rubric

NAMES = {"base": "Base", "sft": "SFT", "rlvr": "RLVR", "rlr3": "RLR³"}
"""Model → display name."""
GENRM_MODELS = ("base", "sft", "rlvr")
_SPLITS = ("train", "test")


class _Splits(RootModel[dict[str, DataStatistics]]):
    pass


class _Models(RootModel[dict[str, GenrmReport]]):
    pass


class Checklists(NamedTuple):
    """Statistics of the teachers' checklists and of the dropped criteria."""

    checklists: int
    criteria: int
    essential: int
    verifiers: dict[str, int]
    """Verifier → criteria that it checks; fuzzy criteria under the empty name."""
    dropped: dict[str, int]
    """Reason → criteria dropped by the last attempt."""

    @property
    def each(self) -> float:
        return self.criteria / self.checklists

    @property
    def verifiable(self) -> int:
        return self.criteria - self.verifiers.get("", 0)


class Rlr3Run(NamedTuple):
    """Contents of the page's tables and charts."""

    source: SourceCounts | None
    corpus: CorpusStatistics | None
    conversions: dict[str, int]
    """Outcome of the conversion → multiple-choice questions."""
    checklists: Checklists | None
    genrm_data: dict[str, DataStatistics]
    genrm: dict[str, GenrmReport]
    audit: AuditSummary | None
    board: Scoreboard | None
    answers: Accuracies | None
    """The board by arm."""
    alarms: dict[str, Alarm]
    """Arm → hacking alarm, for arms that raised one."""


def read_rlr3_run(run: Path, ledger: Iterable[dict[str, Any]]) -> Rlr3Run:
    """Read the results of a run.

    Raises:
        UserError: a file has other contents than expected.
    """
    last = {str(entry["stage"]): entry for entry in ledger}
    splits = read_value(run / "genrm_data" / "statistics.json", _Splits)
    models = read_value(run / "train_genrm" / "genrm.json", _Models)
    board = read_board(run)
    return Rlr3Run(
        source=read_value(run / "prepare_questions" / "data.json", SourceCounts),
        corpus=read_value(run / "offline_filter" / "statistics.json", CorpusStatistics),
        conversions=_counts(last, "open_questions", "multiple_choice"),
        checklists=_checklists(run, _counts(last, "write_checklists", "dropped_criteria")),
        genrm_data={split: splits.root[split] for split in _SPLITS if splits and split in splits.root},
        genrm={model: models.root[model] for model in GENRM_MODELS if models and model in models.root},
        audit=read_value(run / "audit" / SUMMARY_FILE, AuditSummary),
        board=board,
        answers=read_accuracies(board),
        alarms={arm: alarm for arm in ARMS if (alarm := read_alarm(run / f"train_{arm}"))},
    )


def _checklists(run: Path, dropped: dict[str, int]) -> Checklists | None:
    verifiers: Counter[str] = Counter()
    checklists = essential = 0
    for row in table_rows(run / "write_checklists", ["rubric"]):
        criteria = Rubric.model_validate_json(row["rubric"]).criteria
        checklists += 1
        essential += sum(criterion.essential for criterion in criteria)
        verifiers.update(criterion.verifier or "" for criterion in criteria)
    return Checklists(checklists, verifiers.total(), essential, dict(verifiers), dropped) if checklists else None


def _counts(entries: dict[str, dict[str, Any]], stage: str, name: str) -> dict[str, int]:
    """Read a counter that a stage put into the ledger, most frequent first."""
    counter = entries.get(stage, {}).get(name)
    items = counter.items() if isinstance(counter, dict) else ()
    counts = {str(key): count for key, count in items if isinstance(count, int)}
    return dict(sorted(counts.items(), key=lambda one: (-one[1], one[0])))
