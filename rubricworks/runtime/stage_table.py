"""The stage table: one line of data per stage.

Components, compilation, placement, reuse, pages and `doctor` read it. A new stage is its module, its component, its
line here, and its place in a pipeline. Modules and sections are strings, so that the table imports nothing. Ids are
permanent, because run folders, S3 prefixes and Kubeflow use them: modules move, ids do not.
"""

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from rubricworks.reports.page import Report, Section
    from rubricworks.runtime.config import StageConfig

Image = Literal["cpu", "trainer"]
Phase = Literal["data", "synthesis", "training", "evaluation", "release", "cluster"]


class ServedInput(NamedTuple):
    """Input that is a model, which the run serves to a stage (`serve: {genrm: {model: {stage: train_genrm}}}`)."""

    name: str
    stage: str
    """Stage that produces it."""


@dataclass(frozen=True)
class Stage:
    """A step of a pipeline."""

    id: str
    package: str
    """Package below `rubricworks` with its module, which has its configuration and `run(config, job)`."""
    phase: Phase
    """Module of its component; `cluster` holds the tasks that a pipeline has only on a cluster."""
    image: Image
    """`trainer` loads a model; `cpu` reads tables and calls endpoints."""
    inputs: tuple[str, ...] = ()
    """Names of the outputs that it reads, as its component takes them."""
    optional: tuple[str, ...] = ()
    """Inputs that a pipeline may leave out."""
    served: tuple[ServedInput, ...] = ()
    """Inputs that are models served by the run; read only if the configuration calls the model."""
    table: str = ""
    """Schema of its output table (`data.schemas`); for a training stage, of its rollouts."""
    sections: tuple[str, ...] = ("reports.data:files",)
    """`module:function` below `rubricworks` of each section of its page in the Kubeflow UI."""
    title: str = ""
    """Heading of that page; by default the id's words."""
    module: str = ""
    """Module in the package; by default the id."""
    config: str = "Config"
    """Class of its configuration in the module, or a union of classes."""
    cacheable: bool = False
    """True if Kubeflow may cache it: its output depends only on its inputs. The others read a source, train, measure or
    decide.
    """
    reusable: bool = True
    """True if another run may copy its output; False for stages that register a model or write their run's report."""
    always_runs: bool = False
    """True if it runs again even when finished."""
    multi_node: bool = False
    """True if it can train on several nodes (`train_job`)."""
    multi_process: bool = False
    """True if a process per accelerator trains it (`pods.processes`); other stages use one accelerator at most."""
    calls_models: bool = False
    """True if its configuration names endpoints: on a cluster it waits until the pools of later stages are checked."""
    can_fan_out: bool = False
    """True if its items can be divided over pods (`fan_out`)."""
    in_retraining: bool = False
    """True if a retraining runs it again."""
    fetches_model: bool = False
    """True if its output is a model that it did not train."""
    report: str = ""
    """Module below `rubricworks` whose `REPORT` it writes, as `report.html` and `summary.json` of the run."""
    reads_whole_run: bool = False
    """True if it reads the outputs of all other stages."""
    opens_run: bool = False
    """True if it writes the run's own files (recipe, budget), for runs that no client prepared."""

    @property
    def artifact(self) -> Literal["Dataset", "Model", ""]:
        """Kubeflow's type of its output; empty if that is neither a table nor a model."""
        if self.phase == "training" or self.fetches_model:
            return "Model"
        return "Dataset" if self.table else ""

    @property
    def component(self) -> str:
        """Full name of its component's module; the component has the stage's id as its name."""
        return f"rubricworks.components.{self.phase}"

    @property
    def served_stages(self) -> dict[str, str]:
        """Stage → input that is its model."""
        return {served.stage: served.name for served in self.served}

    def load(self) -> Any:
        """Import and return the stage's module."""
        return importlib.import_module(f"rubricworks.{self.package}.{self.module or self.id}")

    def load_config(self) -> Any:
        """Import its module and return the class of its configuration, or a union of classes."""
        return getattr(self.load(), self.config)

    def parse_config(self, text: str) -> "StageConfig":
        """Import its module and validate its configuration, which is JSON."""
        from pydantic import TypeAdapter

        config: StageConfig = TypeAdapter(self.load_config()).validate_json(text)
        return config

    def load_sections(self) -> "list[Section]":
        """Import and return the sections of its page."""
        sections = ("reports.stage_page:report_page",) if self.report else self.sections
        names = (section.partition(":") for section in sections)
        return [getattr(importlib.import_module(f"rubricworks.{module}"), function) for module, _, function in names]

    def load_report(self) -> "Report":
        """Import and return the report that it writes."""
        report: Report = importlib.import_module(f"rubricworks.{self.report}").REPORT
        return report


_GENRM = (ServedInput("genrm", "train_genrm"), ServedInput("genrm", "fetch_champion"))
_POLICY = ("reports.training:training", "reports.training:rollout_groups")
# fmt: off
_TABLE = (
    # data
    Stage("prepare", "stages.data", "data", "cpu",
          table="samples", sections=("reports.data:samples",), in_retraining=True),
    Stage("prepare_questions", "stages.data", "data", "cpu",
          table="samples", sections=("reports.data:samples",), in_retraining=True),
    Stage("open_questions", "methods.rlr3.stages", "data", "cpu", ("samples",),
          table="samples", sections=("methods.rlr3.stage_sections:opened_questions",), cacheable=True,
          in_retraining=True, calls_models=True),
    Stage("offline_filter", "methods.rlr3.stages", "data", "trainer", ("questions", "samples", "rubrics", "model"),
          table="filtered", sections=("methods.rlr3.stage_sections:corpus",), cacheable=True, can_fan_out=True,
          in_retraining=True, calls_models=True),
    Stage("prepare_prompts", "methods.rubricrl.stages", "data", "cpu",
          table="samples", sections=("reports.data:samples",), cacheable=True),
    Stage("benchmark_questions", "methods.recaption_pretrain.stages", "data", "cpu", ("samples",),
          table="samples", sections=("reports.data:samples",)),
    Stage("find_new_samples", "methods.retrain.stages", "data", "cpu"),
    # synthesis
    Stage("caption_committee", "stages.synthesis", "synthesis", "cpu", ("samples",),
          table="captions", sections=("reports.data:captions",),
          cacheable=True, can_fan_out=True, in_retraining=True, calls_models=True),
    Stage("caption_student", "stages.synthesis", "synthesis", "trainer", ("samples", "model"),
          table="captions", sections=("reports.data:captions",), cacheable=True, in_retraining=True),
    Stage("synthesize_rubrics", "stages.synthesis", "synthesis", "cpu", ("samples", "captions", "student_captions"),
          table="rubrics", sections=("reports.data:rubrics",), cacheable=True, in_retraining=True,
          calls_models=True),
    Stage("recap", "methods.balcaprl.stages", "synthesis", "cpu", ("samples",),
          table="samples", sections=("methods.balcaprl.sections:rewritten_references",), cacheable=True,
          in_retraining=True, calls_models=True),
    Stage("recaption", "stages.synthesis", "synthesis", "trainer", ("samples",),
          table="captions", sections=("reports.data:captions",), can_fan_out=True, calls_models=True),
    Stage("write_exams", "stages.synthesis", "synthesis", "cpu", ("samples",),
          table="exams", sections=("reports.data:exams",), cacheable=True, can_fan_out=True, in_retraining=True,
          calls_models=True),
    Stage("peer_rubrics", "methods.balcaprl.stages", "synthesis", "trainer", ("samples", "model"),
          table="rubrics", sections=("reports.data:rubrics",), cacheable=True, in_retraining=True,
          calls_models=True),
    Stage("write_checklists", "methods.rlr3.stages", "synthesis", "cpu", ("samples",),
          table="rubrics", sections=("reports.data:rubrics",), cacheable=True, in_retraining=True,
          calls_models=True),
    Stage("genrm_data", "methods.rlr3.stages", "synthesis", "trainer", ("samples", "rubrics", "filtered", "model"),
          table="genrm_data", sections=("methods.rlr3.stage_sections:labels",), cacheable=True, can_fan_out=True,
          title="GenRM data", calls_models=True),
    Stage("write_prompt_rubrics", "methods.rubricrl.stages", "synthesis", "cpu", ("samples",),
          table="rubrics", sections=("reports.data:rubrics",), cacheable=True, can_fan_out=True, calls_models=True),
    # training
    Stage("warm_up", "stages.training", "training", "trainer", ("samples",),
          sections=("reports.training:losses",), multi_process=True, in_retraining=True),
    Stage("train_policy", "stages.training", "training", "trainer", ("samples", "rubrics", "model", "captions"),
          config="CaptionConfig", table="rollouts", sections=_POLICY,
          multi_node=True, multi_process=True, in_retraining=True, calls_models=True),
    Stage("train_balcaprl", "stages.training", "training", "trainer", ("samples", "rubrics", "model"),
          module="train_policy", config="CaptionConfig", table="rollouts",
          sections=("methods.balcaprl.sections:balanced_training", "reports.training:rollout_groups"),
          multi_node=True, multi_process=True, title="train BalCapRL", in_retraining=True, calls_models=True),
    Stage("train_rlvr", "stages.training", "training", "trainer", ("samples", "rubrics", "filtered", "model"),
          module="train_policy", config="AnswerConfig", table="rollouts", sections=_POLICY,
          multi_node=True, multi_process=True, title="train RLVR", calls_models=True),
    Stage("train_rlr3", "stages.training", "training", "trainer", ("samples", "rubrics", "filtered", "model", "genrm"),
          optional=("genrm",), served=_GENRM,
          module="train_policy", config="AnswerConfig", table="rollouts", sections=_POLICY,
          multi_node=True, multi_process=True, title="train RLR³", in_retraining=True, calls_models=True),
    Stage("train_genrm", "methods.rlr3.stages", "training", "trainer", ("genrm_data",),
          table="genrm_outputs", sections=("methods.rlr3.stage_sections:genrm",), multi_process=True,
          title="train GenRM"),
    Stage("pretrain_generator", "methods.rubricrl.stages", "training", "trainer",
          sections=("reports.training:losses",)),
    Stage("train_generator", "stages.training", "training", "trainer", ("samples", "rubrics", "model"),
          module="train_policy", config="ImageConfig", table="rollouts", sections=_POLICY,
          multi_process=True, calls_models=True),
    Stage("align_projector", "methods.recaption_pretrain.stages", "training", "trainer", ("samples", "captions"),
          sections=("reports.training:losses",), multi_process=True),
    Stage("pretrain_vlm", "methods.recaption_pretrain.stages", "training", "trainer", ("samples", "captions", "model"),
          sections=("reports.training:losses",), multi_process=True, title="pretrain VLM"),
    Stage("pretrain_baseline", "methods.recaption_pretrain.stages", "training", "trainer",
          ("samples", "captions", "model"), sections=("reports.training:losses",), multi_process=True),
    Stage("tune_vlm", "methods.recaption_pretrain.stages", "training", "trainer", ("samples", "model"),
          sections=("reports.training:losses",), multi_process=True, title="tune VLM"),
    Stage("tune_baseline", "methods.recaption_pretrain.stages", "training", "trainer", ("samples", "model"),
          sections=("reports.training:losses",), multi_process=True),
    # evaluation
    Stage("score", "stages.evaluation", "evaluation", "trainer",
          ("samples", "rubrics", "exams", "model", "peer", "policy"),
          optional=("rubrics", "exams", "model", "peer", "policy"),
          table="scores", sections=("reports.results:results", "reports.examples:examples"),
          in_retraining=True, calls_models=True),
    Stage("audit", "methods.rlr3.stages", "evaluation", "cpu", ("genrm_data", "samples", "genrm"),
          optional=("genrm",), served=_GENRM,
          table="audit", sections=("methods.rlr3.stage_sections:judge_audit",), calls_models=True),
    Stage("fetch_champion", "methods.retrain.stages", "evaluation", "cpu", ("found",), fetches_model=True),
    # release
    Stage("promote", "stages.release", "release", "cpu", ("scores", "policy", "samples", "audit", "genrm"),
          optional=("audit", "genrm"), served=_GENRM, sections=("reports.headline:promotion",), reusable=False),
    Stage("challenge", "methods.retrain.stages", "release", "cpu", ("found", "scores", "policy", "samples"),
          reusable=False),
    Stage("report", "stages.release", "release", "cpu", ("promotion",), module="report",
          report="methods.rubicap.sections", reads_whole_run=True),
    Stage("rlr3_report", "stages.release", "release", "cpu", ("promotion", "audit", "genrm"), module="report",
          report="methods.rlr3.sections", title="RLR³ report", reads_whole_run=True),
    Stage("balcaprl_report", "stages.release", "release", "cpu", ("promotion",), module="report",
          report="methods.balcaprl.sections", title="BalCapRL report", reads_whole_run=True),
    Stage("rubricrl_report", "stages.release", "release", "cpu", ("promotion",), module="report",
          report="methods.rubricrl.sections", title="RubricRL report", reads_whole_run=True),
    Stage("recaption_pretrain_report", "stages.release", "release", "cpu", ("scores",), module="report",
          report="methods.recaption_pretrain.sections", title="recaptioning report",
          reads_whole_run=True),
    Stage("evaluation_report", "methods.evaluate.stages", "release", "cpu", ("scores",),
          report="methods.evaluate.sections", reads_whole_run=True),
    # cluster
    Stage("preflight", "stages.cluster", "cluster", "cpu", always_runs=True, opens_run=True),
    Stage("check_accelerators", "stages.cluster", "cluster", "trainer", always_runs=True),
    Stage("outcome", "stages.cluster", "cluster", "cpu", always_runs=True, reads_whole_run=True),
)
# fmt: on

STAGES: dict[str, Stage] = {stage.id: stage for stage in _TABLE}
"""Stage by id."""
REPORTS = frozenset(stage.id for stage in _TABLE if stage.report)
NOT_REUSABLE = frozenset(stage.id for stage in _TABLE if stage.report or not stage.reusable)
"""Stages that an arm leaves out too: it is compared, not promoted."""
RETRAINING_STAGES = tuple(stage.id for stage in _TABLE if stage.in_retraining)
CLUSTER_TASKS = frozenset(stage.id for stage in _TABLE if stage.phase == "cluster")
