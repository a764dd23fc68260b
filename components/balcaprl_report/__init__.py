from rubricworks.components.balcaprl_report.component import balcaprl_report

__all__ = ["balcaprl_report"]
