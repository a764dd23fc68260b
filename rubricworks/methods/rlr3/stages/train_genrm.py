"""Train a generative reward model (GenRM) to execute checklists, first by SFT, then by RLVR (RLR³, section 4.4).

The output holds the trained `model`, its base and the SFT baseline, the test outputs of all three (`outputs`), the
rollouts of the training, and `genrm.json`: the paper's Table 4. A student that is a model folder or a Hub name is its
own base. `student: tiny_text` builds a small text model, and `base` teaches it careless executions: it stands in for a
general instruct model on a laptop, is not in the paper, and its results say nothing about real models. SFT imitates the
teachers' reasoning where the labels keep it (`genrm_data.reasoning`).
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import Field, model_validator

from rubricworks.adapters.genrm import ExecutionReward
from rubricworks.data.alarm import write_alarm
from rubricworks.data.tables import Sample, build_table, read_rows
from rubricworks.environment import fill
from rubricworks.errors import UserError
from rubricworks.grading import Scoring, scoring_messages, scoring_request, scoring_text
from rubricworks.methods.rlr3.genrm_report import GenrmReport, genrm_report
from rubricworks.methods.rlr3.noisy_executions import Carelessness, careless_execution
from rubricworks.policy.step_tables import StepTables, scorecard_table
from rubricworks.rubrics import Rubric
from rubricworks.runtime.call_table import Row
from rubricworks.runtime.config import StageConfig, canonical_json
from rubricworks.runtime.job import Job, model_dir
from rubricworks.stages.training.step_listener import step_listener
from rubricworks.storage import write_atomic
from rubricworks.tracking import RunLog, stage_run
from rubricworks.training.config import EngineOptions, SftConfig, UnprobedGrpoConfig
from rubricworks.training.model_card import CARD, Usage, card_with_scores, write_card
from rubricworks.training.processes import is_local_main, is_main, main_process_first
from rubricworks.training.tiny.text_config import TinyTextConfig

if TYPE_CHECKING:
    from rubricworks.training.policy.rollouts import StepRollouts

REPORT = "genrm.json"
_WITHOUT_SYSTEM = "{%- set messages = messages | rejectattr('role', 'equalto', 'system') | list -%}"
"""Beginning of a chat template that leaves out system prompts."""
Model = Literal["base", "sft", "rlvr"]


class Config(StageConfig):
    student: str
    """`tiny_text`, a model directory, or a model's name on the Hugging Face Hub. It is trained on text alone; one that
    can see can also be audited with the image.
    """
    instructions: bool = False
    """Put the whole scoring prompt before the request, for instruct models; a model trained from scratch learns without
    it, and leaves it out where it is served, too.
    """
    tiny: TinyTextConfig = TinyTextConfig()
    """Shape of the tiny student."""
    base: SftConfig | None = None
    """SFT that makes the tiny student a careless base model."""
    carelessness: Carelessness = Carelessness()
    """Faults of that base model."""
    sft: SftConfig
    """SFT baseline on the labels."""
    rlvr: UnprobedGrpoConfig
    """GRPO of the judge on its labels, after the SFT."""
    start: Literal["base", "sft"] = "base"
    """Start of RLVR. A tiny base writes too few valid objects to learn from."""
    engine: EngineOptions = EngineOptions()
    """Engine that writes the test outputs: `{kind: vllm}` on GPUs."""
    batch_size: int = Field(default=64, ge=1)
    """Test outputs per generation batch; vLLM chooses its own."""

    @model_validator(mode="after")
    def _tiny_needs_a_base(self) -> "Config":
        if (self.student == "tiny_text") != (self.base is not None):
            raise ValueError("`base` is for student tiny_text, which knows nothing yet: give both or neither")
        return self


class Instance(NamedTuple):
    """Labelled response with the GenRM's prompt for it."""

    row: Row
    prompt: str | list[dict[str, Any]]

    @property
    def label(self) -> Scoring:
        return Scoring.model_validate_json(self.row["label"])

    @property
    def rubric(self) -> Rubric:
        return Rubric.model_validate_json(self.row["rubric"])


def run(config: Config, job: Job) -> None:
    from rubricworks.training.engine import check_engine

    check_engine(config.engine)
    instances = [_instance(row, config.instructions) for row in read_rows(job.inputs["genrm_data"])]
    train, test, unbalanced = (
        [instance for instance in instances if instance.row["split"] == split]
        for split in ("train", "test", "left_out")
    )
    if not train or not test:
        raise UserError(f"{job.inputs['genrm_data']}: {len(train)} rows to train on and {len(test)} to test; need both")
    with stage_run(job.run, job.stage) as log:
        log.log_params(config.model_dump(mode="json"))
        data = job.inputs["genrm_data"]
        log.log_input("genrm_data", data, job.made_by["inputs"]["genrm_data"], context="GenRM training")
        models: dict[Model, str | Path] = {"base": _base(config, job, [*train, *unbalanced], log)}
        models["sft"] = _sft(config.sft, config.seed, models["base"], _examples(train), job, log, "sft")
        models["rlvr"] = _rlvr(config, models[config.start], train, job, log)
        if not is_main():
            return
        if not config.instructions:
            _drop_system_prompt(model_dir(job.out))
        reports = _test(config, job, models, test)
        for name, report in reports.items():
            log.log_metrics({f"{name}/{figure}": value for figure, value in report.metrics().items()})
    _write_card(config, job, reports)
    contents = {name: report.model_dump(mode="json") for name, report in reports.items()}
    write_atomic(job.out / REPORT, canonical_json(contents).encode())
    job.figures.update(train=len(train), test=len(test), **reports["rlvr"].metrics())


def _drop_system_prompt(model: Path) -> None:
    """Let the model's chat template leave out the scoring prompt, so that a server asks it as it was trained."""
    path = model / "chat_template.jinja"
    if not path.is_file():
        raise UserError(f"{model}: no {path.name}, so no server can ask this model; set genrm.instructions")
    template = path.read_text(encoding="utf-8")
    if not template.startswith(_WITHOUT_SYSTEM):
        write_atomic(path, f"{_WITHOUT_SYSTEM}{template}".encode())


def _write_card(config: Config, job: Job, reports: Mapping[Model, GenrmReport]) -> None:
    """Write the card of the last model, with its test beside those of the models before."""
    folder, made_by = model_dir(job.out), job.made_by["inputs"]
    write_card(folder, Usage(), trained_by=job.stage, data=made_by, config=config.model_dump(mode="json"))
    figures: dict[str, dict[str, float | None]] = {}
    for name, report in reports.items():
        for measure, value in report.metrics().items():
            figures.setdefault(measure, {})[name] = value
    write_atomic(folder / CARD, card_with_scores(folder, figures).encode())


def _instance(row: Row, instructions: bool) -> Instance:
    sample = Sample(sample_id=row["sample_id"], question=row["question"])
    request = scoring_request(sample, row["response"], Rubric.model_validate_json(row["rubric"]))
    messages = [dict(message) for message in scoring_messages(request)]
    return Instance(row, messages if instructions else scoring_text(request))


def _examples(instances: Sequence[Instance]) -> list[tuple[None, Any, str]]:
    return [(None, instance.prompt, instance.row["label"]) for instance in instances]


def _base(config: Config, job: Job, instances: Sequence[Instance], log: RunLog) -> str | Path:
    """Return the base model: the given student, or the tiny student trained on careless executions.

    Args:
        instances: training data of the tiny student: all but the test's images, including rows that balancing dropped.
    """
    if config.base is None:
        student = fill(config.student, "genrm.student")
        return Path(student) if Path(student).is_dir() else student
    from rubricworks.training.tiny.text_student import build_text_student

    examples = _careless_examples(config, instances)
    texts = [
        text
        for (_, prompt, wrong), instance in zip(examples, instances, strict=True)
        for text in _texts(prompt, wrong, instance)
    ]
    untrained = job.scratch("untrained")
    with main_process_first():
        if is_local_main():
            build_text_student(texts, untrained, config=config.tiny, seed=config.seed)
    return _sft(config.base, config.seed, untrained, examples, job, log, "base")


def _texts(prompt: str | list[dict[str, Any]], careless: str, instance: Instance) -> list[str]:
    turns = [prompt] if isinstance(prompt, str) else [turn["content"] for turn in prompt]
    return [*turns, careless, instance.row["label"]]


def _careless_examples(config: Config, instances: Sequence[Instance]) -> list[tuple[None, Any, str]]:
    """SFT examples of careless executions in place of the labels."""
    rng = random.Random(config.seed)
    labels = [(instance.label, instance.rubric) for instance in instances]
    calls: dict[str, list[str]] = {}
    for label, _ in labels:
        for item in (*label.essential, *label.additional):
            if isinstance(item.credit, str):
                calls.setdefault(item.credit.partition("(")[0], []).append(item.credit)
    return [
        (None, instance.prompt, careless_execution(*of, lambda name: rng.choice(calls[name]), config.carelessness, rng))
        for instance, of in zip(instances, labels, strict=True)
    ]


def _sft(
    options: SftConfig, seed: int, start: str | Path, examples: list[Any], job: Job, log: RunLog, title: str
) -> Path:
    from rubricworks.training.sft import train_sft

    return train_sft(
        start,
        examples,
        job.out / title,
        options,
        seed=seed,
        title=title,
        on_log=step_listener(
            job, log, choose=lambda metrics: {f"{title}/{name}": value for name, value in metrics.items()}
        ),
    )


def _rlvr(config: Config, start: str | Path, train: Sequence[Instance], job: Job, log: RunLog) -> Path:
    from rubricworks.training.policy.grpo import train_policy

    rows = [
        {
            "sample_id": f"{instance.row['sample_id']}/{number}",
            "prompt": instance.prompt,
            "rubric": instance.row["rubric"],
            "label": instance.row["label"],
        }
        for number, instance in enumerate(train)
    ]
    scorecards = scorecard_table()
    reward = ExecutionReward(sink=scorecards.add)
    train_model = partial(train_policy, start, rows, reward, job.out, config.rlvr, seed=config.seed)
    if not is_main():
        train_model()
        return model_dir(job.out)
    with StepTables(job, every=config.rlvr.checkpoint_every) as tables:

        def record(step: "StepRollouts") -> None:
            tables.add(step, scorecards.drain(step)[0])
            # Every output of a GenRM earns a number, malformed ones 0; no reward is missing.
            rewards = [reward for reward in step.rewards if reward is not None]
            log.log_metrics({"reward": sum(rewards) / len(step.rewards)}, step=step.step)

        on_log = step_listener(job, log, choose=lambda _: {})
        result = train_model(on_step=record, on_log=on_log, before_checkpoint=tables.commit)
    write_alarm(job.out, result.outcome)
    return model_dir(job.out)


def _test(
    config: Config, job: Job, models: dict[Model, str | Path], test: Sequence[Instance]
) -> dict[Model, GenrmReport]:
    """Generate each model's greedy test outputs and measure them."""
    from accelerate.utils.memory import clear_device_cache

    from rubricworks.training.engine import load_engine

    prompts = [instance.prompt for instance in test]

    async def write(names: list[Model]) -> list[Row]:
        rows: list[Row] = []
        for name in names:
            clear_device_cache(garbage_collection=True)  # of the training, or of the model before
            engine = load_engine(models[name], config.engine, batch_size=config.batch_size)
            texts = engine([None] * len(test), prompts, max_new_tokens=config.rlvr.rollouts.max_new_tokens)
            engine.close()
            rows += [_output(name, instance, *text) for instance, text in zip(test, texts, strict=True)]
        return rows

    asyncio.run(build_table(job.out / "outputs", "genrm_outputs", models, write, made_by=job.made_by, shard_size=1))
    outputs: dict[Model, list[str]] = {name: [] for name in models}
    for row in read_rows(job.out / "outputs", columns=["model", "output"]):
        outputs[row["model"]].append(row["output"])
    return {
        name: genrm_report((text, instance.label, instance.rubric) for text, instance in zip(texts, test, strict=True))
        for name, texts in outputs.items()
    }


def _output(model: Model, instance: Instance, text: str, tokens: int) -> Row:
    return {
        "sample_id": instance.row["sample_id"],
        "model": model,
        "response": instance.row["response"],
        "output": text,
        "tokens": tokens,
        "label": instance.row["label"],
    }
