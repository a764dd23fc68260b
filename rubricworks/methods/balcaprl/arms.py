"""BalCapRL's arms, as `rubricworks arms` compares them."""

from rubricworks.claims.arm_table import write_documents
from rubricworks.claims.arms import ArmComparison, ArmDocuments, ArmRuns
from rubricworks.claims.run_scores import is_finished
from rubricworks.methods.balcaprl.arm_tables import FORM, TITLES, arm_rows, table_arms


def write_table(runs: ArmRuns) -> ArmDocuments:
    """Write the table of the runs in each form.

    Raises:
        UserError: a run is not finished, damaged, or began with another base model.
    """
    return write_documents(runs, arm_rows(runs.folders), FORM)


ARMS = ArmComparison(titles=TITLES, rows_of=table_arms, is_finished=is_finished, write=write_table)
