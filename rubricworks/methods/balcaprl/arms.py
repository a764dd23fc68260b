"""BalCapRL's arms, as `rubricworks arms` compares them."""

from rubricworks.claims.arms import ArmComparison, ArmDocuments, ArmRuns
from rubricworks.methods.balcaprl.arm_tables import TITLES, ArmTable, arm_rows, select_rows, table_arms
from rubricworks.methods.balcaprl.claim_results import is_finished
from rubricworks.methods.balcaprl.report.arms import arms_page, markdown, text


def write_table(runs: ArmRuns) -> ArmDocuments:
    """Write the table of the runs in each form.

    Raises:
        UserError: a run is not finished, damaged, or began with another base model.
    """
    table = ArmTable(
        title=runs.title,
        recipe=runs.recipe,
        seed=runs.seed,
        changed=runs.changed,
        simulated=runs.simulated,
        version=runs.version,
        rows=select_rows(arm_rows(runs.folders), runs.rows),
    )
    json = table.model_dump_json(indent=2) + "\n"
    return ArmDocuments(text=text(table), json=json, markdown=markdown(table), html=arms_page(table))


ARMS = ArmComparison(titles=TITLES, rows_of=table_arms, is_finished=is_finished, write=write_table)
