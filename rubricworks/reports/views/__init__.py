"""Stage views for the Kubeflow UI: a page (`view`) and a few figures (`metrics`) for every component."""

from rubricworks.reports.views.parts import FinishedStage
from rubricworks.reports.views.show import show_stage

__all__ = ["FinishedStage", "show_stage"]
