"""The stage table: what there is to know of each stage, once, as data.

Components, compilation, placement, reuse, views and `doctor` are served by it. A new stage is its module, its
component, its line here, and its place in a pipeline. Modules and views are strings, so that the table imports
nothing. Ids are identities: run folders, S3 prefixes and Kubeflow know them. Modules move, ids do not.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rubricworks.reports.views.parts import FinishedStage, View

Image = Literal["cpu", "trainer"]
Phase = Literal["data", "synthesis", "training", "evaluation", "release", "cluster"]


@dataclass(frozen=True)
class Stage:
    """One step that pipelines are made of."""

    id: str
    package: str
    """Package below `rubricworks` whose module of the stage's name has its `Config` and `run(config, job)`."""
    phase: Phase
    """Folder of its component; `cluster` holds the tasks that a pipeline has on a cluster alone."""
    image: Image
    """`trainer` loads a model; `cpu` reads tables and calls endpoints."""
    inputs: tuple[str, ...] = ()
    """Names of the outputs that it reads, as its component takes them."""
    table: str = ""
    """Schema of the table in its folder (`data.schemas`); of a training stage, of its rollouts."""
    view: str = "reports.views.files:files_view"
    """`module:function` below `rubricworks` that draws its page in the Kubeflow UI."""
    title: str = ""
    """Heading of that page; by default the id's words."""
    cacheable: bool = False
    """Kubeflow may skip it: its output follows from its inputs alone. The others train, measure or decide."""
    reusable: bool = True
    """Another run may copy its output. What speaks for its own run, to the registry or with a page, is not reusable."""
    always_runs: bool = False
    """It runs again although it is done."""
    several_nodes: bool = False
    """It can train on several nodes (`train_job`)."""
    in_parts: bool = False
    """Its items can be shared out over pods (`fan_out`)."""
    retrained: bool = False
    """A retraining runs it again: it makes a policy or measures one."""
    makes_report: bool = False
    """It writes `report.html` and `summary.json` of the run."""
    reads_whole_run: bool = False
    """It looks at what all other stages left."""
    opens_run: bool = False
    """It writes the run's own files (recipe, budget) where no client has."""

    @property
    def component(self) -> str:
        """Full name of its component's module; the component bears the stage's id."""
        return f"rubricworks.components.{self.phase}.{self.id}.component"

    def load(self) -> Any:
        """The stage's module."""
        return importlib.import_module(f"rubricworks.{self.package}.{self.id}")

    def load_view(self) -> "Callable[[FinishedStage], View]":
        """The function that draws its page."""
        module, _, function = self.view.partition(":")
        view: Callable[[FinishedStage], View] = getattr(importlib.import_module(f"rubricworks.{module}"), function)
        return view


# fmt: off
_TABLE = (
    # data
    Stage("prepare", "stages.data", "data", "cpu",
          table="samples", view="reports.views.data:samples", cacheable=True, retrained=True),
    Stage("prepare_questions", "stages.data", "data", "cpu",
          table="samples", view="reports.views.data:samples", cacheable=True, retrained=True),
    Stage("open_questions", "methods.rlr3.stages", "data", "cpu", ("samples",),
          table="samples", view="methods.rlr3.views:opened_questions", cacheable=True, retrained=True),
    Stage("offline_filter", "methods.rlr3.stages", "data", "trainer", ("questions", "samples", "rubrics", "model"),
          table="filtered", view="methods.rlr3.views:filtered_samples", cacheable=True, retrained=True),
    Stage("find_new_samples", "methods.retrain.stages", "data", "cpu"),
    # synthesis
    Stage("caption_committee", "stages.synthesis", "synthesis", "cpu", ("samples",),
          table="captions", view="reports.views.writings:captions", cacheable=True, in_parts=True, retrained=True),
    Stage("caption_student", "stages.synthesis", "synthesis", "trainer", ("samples", "model"),
          table="captions", view="reports.views.writings:captions", cacheable=True, retrained=True),
    Stage("synthesize_rubrics", "stages.synthesis", "synthesis", "cpu", ("samples", "captions", "student_captions"),
          table="rubrics", view="reports.views.writings:rubrics", cacheable=True, retrained=True),
    Stage("recap", "methods.balcaprl.stages", "synthesis", "cpu", ("samples",),
          table="samples", view="methods.balcaprl.views:rewritten_references", cacheable=True, retrained=True),
    Stage("write_exams", "methods.balcaprl.stages", "synthesis", "cpu", ("samples",),
          table="exams", view="methods.balcaprl.views:exams", cacheable=True, in_parts=True, retrained=True),
    Stage("peer_rubrics", "methods.balcaprl.stages", "synthesis", "trainer", ("samples", "model"),
          table="rubrics", view="reports.views.writings:rubrics", cacheable=True, retrained=True),
    Stage("write_checklists", "methods.rlr3.stages", "synthesis", "cpu", ("samples",),
          table="rubrics", view="reports.views.writings:rubrics", cacheable=True, retrained=True),
    Stage("genrm_data", "methods.rlr3.stages", "synthesis", "trainer", ("samples", "rubrics", "model"),
          table="genrm_data", view="methods.rlr3.views:labelled_responses", cacheable=True, title="GenRM data"),
    # training
    Stage("warm_up", "stages.training", "training", "trainer", ("samples",),
          view="reports.views.training:warm_up", retrained=True),
    Stage("train_policy", "methods.rubicap.stages", "training", "trainer", ("samples", "rubrics", "model", "captions"),
          table="rollouts", view="reports.views.training:policy", several_nodes=True, retrained=True),
    Stage("train_balcaprl", "methods.balcaprl.stages", "training", "trainer", ("samples", "exams", "rubrics", "model"),
          table="rollouts", view="methods.balcaprl.views:policy",
          several_nodes=True, title="train BalCapRL", retrained=True),
    Stage("train_rlvr", "methods.rlr3.stages", "training", "trainer", ("samples", "rubrics", "filtered", "model"),
          table="rollouts", view="reports.views.training:policy", several_nodes=True, title="train RLVR"),
    Stage("train_rlr3", "methods.rlr3.stages", "training", "trainer", ("samples", "rubrics", "filtered", "model"),
          table="rollouts", view="reports.views.training:policy",
          several_nodes=True, title="train RLR³", retrained=True),
    Stage("train_genrm", "methods.rlr3.stages", "training", "trainer", ("genrm_data",),
          table="genrm_outputs", view="methods.rlr3.views:genrm", title="train GenRM"),
    # evaluation
    Stage("evaluate", "methods.rubicap.stages", "evaluation", "trainer", ("samples", "rubrics", "model", "policy"),
          table="evaluations", view="methods.rubicap.views:evaluation", retrained=True),
    Stage("evaluate_captions", "methods.balcaprl.stages", "evaluation", "trainer",
          ("samples", "exams", "model", "policy"),
          table="caption_scores", view="methods.balcaprl.views:caption_scores", retrained=True),
    Stage("evaluate_answers", "methods.rlr3.stages", "evaluation", "trainer", ("samples", "model", "rlvr", "rlr3"),
          table="answers", view="methods.rlr3.views:answers", retrained=True),
    Stage("audit", "methods.rlr3.stages", "evaluation", "cpu", ("genrm_data", "samples"),
          table="audit", view="methods.rlr3.views:audit"),
    Stage("fetch_champion", "methods.retrain.stages", "evaluation", "cpu", ("found",)),
    # release
    Stage("promote", "stages.release", "release", "cpu", ("evaluations", "policy", "samples"),
          view="reports.views.evaluations:promoted", reusable=False),
    Stage("challenge", "methods.retrain.stages", "release", "cpu", ("found", "evaluations", "policy", "samples"),
          reusable=False),
    Stage("report", "methods.rubicap.stages", "release", "cpu", ("promotion",),
          view="reports.views.evaluations:reported", makes_report=True, reads_whole_run=True),
    Stage("rlr3_report", "methods.rlr3.stages", "release", "cpu", ("promotion", "audit", "genrm"),
          view="reports.views.evaluations:reported", makes_report=True, title="RLR³ report", reads_whole_run=True),
    Stage("balcaprl_report", "methods.balcaprl.stages", "release", "cpu", ("promotion",),
          view="reports.views.evaluations:reported", makes_report=True, title="BalCapRL report", reads_whole_run=True),
    # cluster
    Stage("preflight", "stages.cluster", "cluster", "cpu", always_runs=True, opens_run=True),
    Stage("check_accelerators", "stages.cluster", "cluster", "trainer", always_runs=True),
    Stage("outcome", "stages.cluster", "cluster", "cpu", always_runs=True, reads_whole_run=True),
)
# fmt: on

STAGES: dict[str, Stage] = {stage.id: stage for stage in _TABLE}
"""Id → stage."""
REPORTS = frozenset(stage.id for stage in _TABLE if stage.makes_report)
NOT_REUSABLE = frozenset(stage.id for stage in _TABLE if stage.makes_report or not stage.reusable)
"""An arm, which is compared and not promoted, has none of them."""
RETRAINED = tuple(stage.id for stage in _TABLE if stage.retrained)
CLUSTER_TASKS = frozenset(stage.id for stage in _TABLE if stage.phase == "cluster")
