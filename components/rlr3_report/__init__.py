from rubricworks.components.rlr3_report.component import rlr3_report

__all__ = ["rlr3_report"]
