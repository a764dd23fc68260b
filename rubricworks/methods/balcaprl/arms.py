"""BalCapRL's arms, as `rubricworks arms` compares them."""

from rubricworks.claims.arm_table import arm_rows, read_arms, write_documents
from rubricworks.claims.arms import ArmComparison, ArmDocuments, ArmRuns
from rubricworks.claims.run_scores import is_finished
from rubricworks.evaluation.scoreboard import BASE, LENGTH
from rubricworks.methods.balcaprl.arm_tables import FORM, TABLES, TITLES, arm_figures, arm_label
from rubricworks.methods.balcaprl.claim_results import read_scores


def write_table(runs: ArmRuns) -> ArmDocuments:
    """Write the table of the runs in each form.

    Raises:
        UserError: a run is not finished, damaged, or began with another base model.
    """
    boards = read_arms(runs.folders, read_scores, lambda board: board.mean(BASE, LENGTH))
    return write_documents(runs, arm_rows(boards, arm_figures, arm_label), FORM)


ARMS = ArmComparison(titles=TITLES, tables=TABLES, is_finished=is_finished, write=write_table)
