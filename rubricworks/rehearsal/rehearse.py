"""A rehearsal: a recipe's DAG on this machine, stage by stage, with each training killed once and resumed.

The stages are those of `rubricworks run`, in processes of their own; a training that a cluster places on several
accelerators runs in two processes, sharded over gloo where there is no GPU.
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from rubricworks.data.ledger import read_ledger
from rubricworks.data.tables import read_rows
from rubricworks.environment import fill, names_in
from rubricworks.errors import UserError
from rubricworks.kubeflow.arguments import pipeline_arguments
from rubricworks.kubeflow.compile import load_pipeline
from rubricworks.llm import write_budget
from rubricworks.recipe import Recipe
from rubricworks.recipe.cluster_configs import recipe_yaml
from rubricworks.recipe.models import loaded_models
from rubricworks.recipe.sizes import trainings
from rubricworks.rehearsal import rows
from rubricworks.rehearsal.full_size import full_size_problems
from rubricworks.rehearsal.killed_training import KillAtCheckpoint, KilledTraining
from rubricworks.rehearsal.miniatures import Miniature, build_miniature
from rubricworks.rehearsal.needs import calls_text, training_needs
from rubricworks.rehearsal.saved_weights import weight_problems
from rubricworks.rehearsal.scripted_server import ScriptedServer
from rubricworks.rehearsal.shapes import Shape
from rubricworks.rehearsal.shrink import Substitution, processes_of, shrink
from rubricworks.rehearsal.verdict import Rehearsal, StageVerdict
from rubricworks.runs.local import run_local
from rubricworks.runs.stage_graph import stages_before
from rubricworks.runtime.accelerators import ACCELERATORS_ENV
from rubricworks.runtime.job import DONE
from rubricworks.runtime.stage_table import NOT_REUSABLE, STAGES
from rubricworks.storage import write_atomic
from rubricworks.synthesis.prompts import CAPTION_PROMPT, WRITER_SYSTEM
from rubricworks.tracking import TrackingConfig
from rubricworks.training.processes import REHEARSAL

MARK = "rehearsal.json"
"""File of a rehearsal's folder, with its verdict once it has ended."""
_CAPTIONER, _GENERATOR, _FLOW = "Qwen/Qwen2.5-VL-7B-Instruct", "BAAI/Emu3-Gen-hf", "black-forest-labs/FLUX.1-dev"
_QWEN_IMAGE = "Qwen/Qwen-Image"
_NO_COMMIT = "0" * 40
"""Commit that the Hub does not have, so that the shape is the table's."""
_FORMS: dict[str, dict[str, Callable[[Path], Path]]] = {
    "rubicap": {"data.source": rows.captioned_images},
    "balcaprl": {"data.source": rows.captioned_images},
    "rlr3": {"data.source": rows.questions},
    "rubricrl": {"data.source": rows.recaptioned_prompts, "data.held_out_source": rows.geneval_prompts},
    "recaption_pretrain": {
        "data.source": rows.captioned_images,
        "tuning.examples.source": rows.instructions,
        "benchmarks.questions.source": rows.benchmark_questions,
    },
    "evaluate": {"data.source": rows.captioned_images},
}
"""Pipeline → field of a source → rows in its published form."""


class _Material(NamedTuple):
    """Substitutes for models and rows."""

    fields: dict[str, str]
    """Field → model that the recipe loads by it."""
    models: dict[str, str]
    """Field → folder of its miniature."""
    sources: dict[str, str]
    miniatures: list[Miniature]
    notes: list[Substitution]

    @property
    def shapes(self) -> dict[str, Shape]:
        """Model → its own shape."""
        return {mini.model: mini.shape for mini in self.miniatures}


def rehearse(
    recipe: Recipe,
    folder: Path,
    *,
    stages: Sequence[str] = (),
    ask_endpoints: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> Rehearsal:
    """Rehearse a recipe, and write the verdict to the folder as JSON.

    Args:
        folder: place of miniatures, rows and the run; what an earlier rehearsal left there is deleted.
        stages: end with these, and leave out what they do not need; all by default.
        ask_endpoints: send the calls to the recipe's own endpoints.
        say: called with lines of progress.
    Raises:
        UserError: the rehearsal cannot begin; a stage that fails is part of the verdict.
    """
    _require_models_of_its_own(recipe)
    _clear(folder)
    start = time.monotonic()
    with ExitStack() as stack:
        server = None if ask_endpoints else stack.enter_context(ScriptedServer())
        material = _prepare(recipe, folder, say)
        small = shrink(recipe, material.models, material.sources, server.address if server else None)
        processes, whole = processes_of(recipe)
        notes = [*material.notes, *small.substitutions, *whole]
        stack.enter_context(_environment(recipe, processes, ask_endpoints))
        order = _stages_to_run(small.recipe, stages)
        verdicts = _run(small.recipe, folder / "run", order, notes, say)
        calls = dict(server.calls) if server else {}
    rehearsal = Rehearsal(
        recipe=recipe.name,
        arm=recipe.arm,
        stages=tuple(verdicts),
        models={mini.model: f"{mini.kind}, shape from {mini.origin}" for mini in material.miniatures},
        notes=tuple(note.reason for note in notes if not note.section),
        problems=tuple(_problems(recipe, material)),
        needs=tuple(_needs(recipe, material)),
        calls=calls,
        seconds=round(time.monotonic() - start, 1),
    )
    write_atomic(folder / MARK, rehearsal.as_json().encode())
    return rehearsal


def _require_models_of_its_own(recipe: Recipe) -> None:
    if recipe.world is not None:
        raise UserError(f"{recipe.name} runs in the scene world, on models as small as a rehearsal's: run it as it is")
    if recipe.plan_in_words():
        raise UserError(f"{recipe.name} finds its model when it runs; rehearse the recipe that the champion is from")


def _clear(folder: Path) -> None:
    if folder.exists():
        if not (folder / MARK).is_file() and any(folder.iterdir()):
            raise UserError(f"{folder} holds something else than a rehearsal; give another folder with --out")
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / MARK).write_text("{}")


def _prepare(recipe: Recipe, folder: Path, say: Callable[[str], None]) -> _Material:
    """Build miniatures and rows."""
    sources, notes = {}, []
    for field, write in _FORMS.get(recipe.pipeline, {}).items():
        text = _value(recipe, field)
        if text is None:
            continue
        if missing := [name for name in names_in(text) if not os.environ.get(name)]:
            sources[field] = str(write(folder / "rows"))
            note = f"{missing[0]} is not set: rows in the source's published form take its place"
            notes.append(Substitution(field.partition(".")[0], note))
    texts = [CAPTION_PROMPT, WRITER_SYSTEM]
    fields = _models(recipe, notes)
    built: dict[str, Miniature] = {}
    for model in dict.fromkeys(fields.values()):
        place = folder / "models" / model.partition("@")[0].strip("/").replace("/", "--")
        built[model] = build_miniature(model, place, texts, seed=recipe.seed)
        say(f"miniature of {model}: {built[model].kind}, shape from {built[model].origin}")
    for field, model in fields.items():
        notes += [Substitution(field.partition(".")[0], reason) for reason in built[model].differs]
    models = {field: str(built[model].folder) for field, model in fields.items()}
    return _Material(fields, models, sources, list(built.values()), notes)


def _models(recipe: Recipe, notes: list[Substitution]) -> dict[str, str]:
    """Field → model that a stage loads; for one that an unset variable names, a usual one."""
    fields = {field: name for field, name in loaded_models(recipe).items() if _has_miniature(field)}
    if generator := _value(recipe, "warm_up.generator"):
        fields["warm_up.generator"] = generator
    for field, name in fields.items():
        missing = [variable for variable in names_in(name) if not os.environ.get(variable)]
        if not missing:
            fields[field] = fill(name, field)
            continue
        usual = _usual_model(recipe, field)
        fields[field] = f"{usual}@{_NO_COMMIT}"
        notes.append(Substitution(field.partition(".")[0], f"{missing[0]} is not set: {usual} takes its place"))
    return fields


def _has_miniature(field: str) -> bool:
    """False for models that the rehearsal's own server stands in for, and for those of scorers."""
    return not field.startswith("serve.") and ".scorers." not in field


def _usual_model(recipe: Recipe, field: str) -> str:
    if field != "warm_up.generator":
        return _CAPTIONER
    algorithm: Any = getattr(getattr(recipe, "policy", None), "algorithm", None)
    if getattr(algorithm, "type", "") != "diffusion_nft":
        return _GENERATOR
    # FLUX's distilled transformer reads its guidance; Qwen-Image has none in training.
    return _QWEN_IMAGE if algorithm.rollouts.guidance == 1.0 else _FLOW


def _value(recipe: Recipe, field: str) -> str | None:
    value: Any = recipe
    for name in field.split("."):
        value = getattr(value, name, None)
    return value if isinstance(value, str) else None


def _problems(recipe: Recipe, material: _Material) -> Iterator[str]:
    """Lines with what full size refuses and a miniature does not meet."""
    yield from full_size_problems(recipe, material.fields, material.shapes)
    for model, shape in material.shapes.items():
        yield from weight_problems(model, shape)


def _needs(recipe: Recipe, material: _Material) -> Iterator[str]:
    """Lines with what the recipe takes at full size."""
    yield from (needs.text for needs in training_needs(recipe, material.shapes))
    if calls := calls_text(recipe):
        yield calls


_CACHE_GIB = "1"
"""Cache of each vLLM on a CPU, in GiB."""


@contextmanager
def _environment(recipe: Recipe, processes: int, ask_endpoints: bool) -> Iterator[None]:
    """Variables of the stages' processes, for as long as the rehearsal runs."""
    import torch

    gpus = torch.cuda.device_count()
    variables = {
        REHEARSAL: "1",
        ACCELERATORS_ENV: str(min(processes, gpus) if gpus else processes),
        "OMP_NUM_THREADS": "1",
    }
    if not gpus:
        variables["ACCELERATE_USE_CPU"] = "true"
        # A share of the machine's memory would have to hold the training's process, too.
        variables["VLLM_CPU_KVCACHE_SPACE"] = os.environ.get("VLLM_CPU_KVCACHE_SPACE") or _CACHE_GIB
    if not ask_endpoints:
        keys = {endpoint.api_key_env for _, endpoint in recipe.endpoints()}
        variables |= {key: "rehearsal" for key in keys if key and not os.environ.get(key)}
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _stages_to_run(recipe: Recipe, stages: Sequence[str]) -> list[str]:
    """Stages in the pipeline's order: the given ones with those that they need, or all."""
    names = recipe.stage_names()
    if unknown := [stage for stage in stages if stage not in names]:
        raise UserError(f"--stages {unknown[0]}: {recipe.pipeline} has no such stage; there are {', '.join(names)}")
    if not stages:
        return [name for name in names if recipe.arm is None or name not in NOT_REUSABLE]
    needed = stages_before(load_pipeline(recipe.pipeline), stages)
    return [name for name in names if name in needed]


def _run(
    recipe: Recipe, run: Path, order: Sequence[str], notes: Sequence[Substitution], say: Callable[[str], None]
) -> list[StageVerdict]:
    """Run the stages to the end, or to the first that fails; return a verdict on each."""
    recipe = recipe.model_copy(update={"tracking": TrackingConfig()})
    run.mkdir()
    write_atomic(run / "recipe.yaml", recipe_yaml(recipe).encode())
    write_budget(run, recipe.budget)
    configs = recipe.stage_configs()
    without = [stage for stage in recipe.stage_names() if stage not in order]
    trained = [stage for stage in order if trainings(configs[stage])]
    arguments = pipeline_arguments(str(run), recipe.stage_json())
    problem = ""
    killed: list[KilledTraining] = []
    while True:
        with KillAtCheckpoint(run, trained, [training.folder for training in killed]) as killer:
            try:
                run_local(load_pipeline(recipe.pipeline), arguments, run=run, without=without)
            except UserError as error:
                problem = str(error)
        if killer.killed is None:
            break
        killed.append(killer.killed)
        problem = ""
        say(f"{killer.killed.stage}: killed after its checkpoint of step {killer.killed.step}; it is resumed")
    return list(_verdicts(recipe, run, order, notes, killed, problem, trained))


def _verdicts(
    recipe: Recipe,
    run: Path,
    order: Sequence[str],
    notes: Sequence[Substitution],
    killed: Sequence[KilledTraining],
    problem: str,
    trained: Sequence[str],
) -> Iterator[StageVerdict]:
    sections = {stage: _section_of(recipe, stage) for stage in order}
    failed, reason = _failure(run, order, problem)
    for stage in order:
        steps = tuple(training.step for training in killed if training.stage == stage)
        own = [note.reason for note in notes if note.section and note.section == sections[stage]]
        figures = _figures(run, stage)
        if rejected := figures.get("rejected"):
            own.append(f"{rejected:,} rows of the source were rejected: {_first_rejection(run / stage)}")
        if letters := figures.get("dead_letters"):
            own.append(f"{letters:,} calls brought no usable answer (tables `dead_letters`)")
        seconds = float(figures.get("seconds", 0.0))
        if stage == failed:
            yield StageVerdict(stage, "failed", tuple(dict.fromkeys(own)), steps, reason, seconds)
        elif (run / stage / DONE).is_file():
            if stage in trained and not steps and any((run / stage).rglob("checkpoint-*")):
                own.append("it ended before it could be killed at its second checkpoint")
            yield StageVerdict(stage, "passed", tuple(dict.fromkeys(own)), steps, "", seconds)
        else:
            yield StageVerdict(stage, "not reached", (), (), "", 0.0)


def _section_of(recipe: Recipe, stage: str) -> str:
    """Section of the recipe that is, or holds, the configuration of a stage."""
    config = recipe.stage_configs()[stage]
    for name in type(recipe).model_fields:
        value = getattr(recipe, name)
        if value is config or value == config:
            return name
    return {"train_policy": "policy"}.get(STAGES[stage].module or stage, STAGES[stage].phase)


def _failure(run: Path, order: Sequence[str], problem: str) -> tuple[str | None, str]:
    """Stage that failed, and why; None if none did."""
    if not problem:
        return None, ""
    with suppress(OSError, ValueError, KeyError):
        report = json.loads((run / "error.json").read_bytes())
        return str(report["stage"]), " ".join(str(report["message"]).split())
    first = next((stage for stage in order if not (run / stage / DONE).is_file()), None)
    return first, problem


def _figures(run: Path, stage: str) -> dict[str, Any]:
    """Figures of a stage's last attempt."""
    return next((line for line in reversed(read_ledger(run)) if line["stage"] == stage), {})


def _first_rejection(out: Path) -> str:
    """Reason for which the first row was rejected."""
    table = out / "rejected"
    if not table.is_dir():
        return f"see {out}"
    return next((f"{row['source']}: {row['reason']}" for row in read_rows(table)), f"see {table}")
