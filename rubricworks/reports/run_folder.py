"""A run's folder as values; a missing file is None or empty, never an error.

A run can end anywhere, and people open the report to see where. Only unreadable files are refused; the page lists
missing ones.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from rubricworks.data.alarm import Alarm, read_alarm
from rubricworks.data.ledger import read_ledger
from rubricworks.data.manifest import MANIFEST
from rubricworks.data.source_entries import file_name
from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.evaluation.scoreboard import Scoreboard, read_scoreboard
from rubricworks.llm.spending import SPENDING_FILE, read_spending
from rubricworks.reports.costs import ModelCalls, StageCost, model_calls, stage_costs
from rubricworks.reports.samples import data_uri, draw_samples, sample_rows, small_image
from rubricworks.storage.plain_json import plain_object
from rubricworks.strict_yaml import parse_yaml

SOURCE = "source.json"
"""File in the folder of an audit or evaluation that names its data, and says whether the scene world made them."""
SAMPLE_STAGES = ("open_questions", "recap", "prepare_questions", "prepare_prompts", "prepare")
"""Stages that write samples; those that rewrite them come before those that read them."""
NOUNS = {"prepare": "image", "prepare_questions": "question", "prepare_prompts": "prompt"}
"""Stage that reads the samples → a sample in the words of a page."""
_SAMPLE_COLUMNS = ["image", "split", "prompt", "references", "question", "answer", "options", "task", "source"]
Value = TypeVar("Value", bound=BaseModel)


class Promotion(BaseModel):
    """The decision of the promote stage."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    model_name: str = ""
    version: str | None = None
    promoted: bool = False
    passed: bool = False
    reasons: tuple[str, ...] = ()


class DeadLetters(BaseModel):
    """Dead letters of one kind."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stage: str
    purpose: str
    reason: str
    count: int
    example: str
    """The message of the first one."""
    folder: str


class StageRecord(BaseModel):
    """Version, config digest and output digest of a finished stage, from its done.json."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    stage: str
    version: str
    config: str
    digest: str


@dataclass(frozen=True)
class RunFolder:
    """A run whose page is made: what sections read, each file at most once."""

    path: Path
    stage: str = ""
    """Stage whose page is made; for the run's report, the stage that makes it."""
    inputs: Mapping[str, Path] = field(default_factory=dict)
    """Input of the stage → output folder of the stage that produced it."""
    trainings: Mapping[str, str] = field(default_factory=dict)
    """Stage that trains a policy → the policy's name; empty where there is only one."""
    examples: int = 4
    """Samples shown."""
    seed: int = 0
    """Seed of their draw."""
    thumbnails: bool = True
    """Scale all images down, because the Kubeflow UI reads a page whole."""

    @property
    def out(self) -> Path:
        """Folder of the stage."""
        return self.path / self.stage

    @cached_property
    def recipe(self) -> dict[str, Any]:
        return read_recipe(self.path)

    @cached_property
    def ledger(self) -> list[dict[str, Any]]:
        return read_ledger(self.path)

    @cached_property
    def board(self) -> Scoreboard | None:
        return read_scoreboard(self.path / "score")

    @property
    def decoding(self) -> str:
        """Decoding that is reported first."""
        return self.board.decoding if self.board else "greedy"

    @cached_property
    def promotion(self) -> Promotion | None:
        return read_value(self.path / "promote" / "promotion.json", Promotion)

    @cached_property
    def calls(self) -> list[ModelCalls]:
        return model_calls(read_spending(self.path / SPENDING_FILE))

    @cached_property
    def costs(self) -> list[StageCost]:
        """Time and cost of every stage but the one that makes the page."""
        return stage_costs(self.ledger, self.calls, exclude=(self.stage,))

    @cached_property
    def dead_letters(self) -> list[DeadLetters]:
        return read_dead_letters(self.path)

    @cached_property
    def stage_records(self) -> list[StageRecord]:
        """The finished stages, in order of completion, as the ledger has them."""
        places = {str(entry["stage"]): number for number, entry in enumerate(self.ledger)}
        done = sorted(self.path.glob("*/done.json"), key=lambda path: (places.get(path.parent.name, -1), path))
        return [record for path in done if (record := read_value(path, StageRecord))]

    @property
    def version(self) -> str:
        """Version of Rubricworks that ran the last stage."""
        return self.stage_records[-1].version if self.stage_records else ""

    @property
    def source(self) -> str:
        """Stage that reads the samples."""
        return next((stage for stage in NOUNS if (self.path / stage).is_dir()), "prepare")

    def alarm(self, stage: str) -> Alarm | None:
        """Hacking alarm of a training."""
        return read_alarm(self.path / stage)

    def rows(self, table: str, columns: list[str] | None = None) -> Iterator[dict[str, Any]]:
        """Rows of a table in the run; none if it is missing."""
        return table_rows(self.path / table, columns)

    def last_counts(self, stage: str, name: str) -> list[tuple[str, int]]:
        """A counter in a stage's last line of the ledger, the most frequent first."""
        lines = [entry for entry in self.ledger if entry["stage"] == stage]
        counter = lines[-1].get(name) if lines else None
        counts = counter.items() if isinstance(counter, dict) else ()
        ordered = sorted(((str(key), count) for key, count in counts), key=lambda item: (-item[1], item[0]))
        return [(key, count) for key, count in ordered if isinstance(count, int)]

    def draw(self, sample_ids: Iterable[str]) -> list[str]:
        """Samples to show, drawn by a hash of their names: neither the best nor the worst."""
        return draw_samples(sample_ids, self.examples, self.seed)

    def draw_from(self, table: Path) -> list[str]:
        return self.draw(row["sample_id"] for row in table_rows(table, ["sample_id"]))

    def picture(self, image: bytes | None) -> str | None:
        """An image as a data URI; None without one."""
        return (small_image if self.thumbnails else data_uri)(image) if image else None

    def samples(self, sample_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """sample_id → sample, as the stage's input has it, or else as the last stage that wrote it."""
        tables = [self.inputs["samples"]] if "samples" in self.inputs else [self.path / name for name in SAMPLE_STAGES]
        samples: dict[str, dict[str, Any]] = {}
        wanted = set(sample_ids)
        for table in tables:
            if missing := wanted - samples.keys():
                samples |= self.samples_of(table, missing)
        return samples

    def file_names(self, sample_ids: Collection[str]) -> dict[str, str]:
        """sample_id → name of the picture's file, or its place in one."""
        stages = SAMPLE_STAGES if sample_ids else ()
        return {
            row["sample_id"]: file_name(row["source"])
            for stage in stages
            for row in self.rows(stage, ["sample_id", "source"])
            if row["sample_id"] in sample_ids
        }

    def tasks(self) -> dict[str, str]:
        """sample_id → task of every sample."""
        return {
            row["sample_id"]: row["task"] or ""
            for stage in ("benchmark_questions", *SAMPLE_STAGES)
            for row in self.rows(stage, ["sample_id", "task"])
        }

    @staticmethod
    def samples_of(table: Path, sample_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """sample_id → sample in a table, in the order of the ids."""
        ids = list(sample_ids)
        rows = sample_rows(table, set(ids), _SAMPLE_COLUMNS)
        return {key: rows[key] for key in ids if key in rows}


def table_rows(folder: Path, columns: list[str] | None = None) -> Iterator[dict[str, Any]]:
    """Rows of a table; none if the table is missing or unfinished."""
    if (folder / MANIFEST).is_file():
        yield from read_rows(folder, columns=columns)


def read_recipe(run: Path) -> dict[str, Any]:
    """The recipe as the user wrote it; empty for a run without one."""
    path = run / "recipe.yaml"
    if not path.is_file():
        return {}
    try:
        recipe = parse_yaml(path.read_text(encoding="utf-8")).value
    except ValueError as error:
        raise UserError(f"{path}: not YAML ({error}); mend it and run the report again") from error
    return recipe if isinstance(recipe, dict) else {}


def is_simulated(folder: Path) -> bool:
    """Return True if the scene world simulated models and data, according to a run's recipe or an audit's source.

    Raises:
        UserError: one of the files is damaged.
    """
    source = folder / SOURCE
    if not source.is_file():
        return bool(read_recipe(folder).get("world"))
    try:
        return bool(plain_object(source.read_bytes())["simulated"])
    except (ValueError, KeyError) as error:
        raise UserError(f"{source}: not what an audit leaves there; move it away, or audit again") from error


def read_dead_letters(run: Path) -> list[DeadLetters]:
    """Dead letters by stage, purpose and reason, the most frequent first."""
    counts: Counter[tuple[str, str, str, str]] = Counter()
    examples: dict[tuple[str, str, str, str], str] = {}
    # `peer_rubrics` runs two stages in folders of its own.
    patterns = ("*", "peer_rubrics/*")
    for manifest in sorted(path for stage in patterns for path in run.glob(f"{stage}/dead_letters/{MANIFEST}")):
        folder = manifest.parent
        for row in table_rows(folder, ["stage", "purpose", "reason", "message"]):
            key = (row["stage"], row["purpose"], row["reason"], str(folder.relative_to(run)))
            counts[key] += 1
            examples.setdefault(key, row["message"])
    return [
        DeadLetters(stage=key[0], purpose=key[1], reason=key[2], folder=key[3], count=count, example=examples[key])
        for key, count in counts.most_common()
    ]


def read_rejected(run: Path, stage: str = "prepare") -> list[tuple[str, int, str]]:
    """(reason, count, first source) of rejected data, the most frequent reason first."""
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}
    for row in table_rows(run / stage / "rejected"):
        counts[row["reason"]] += 1
        first.setdefault(row["reason"], row["source"])
    return [(reason, count, first[reason]) for reason, count in counts.most_common(20)]


def read_value(path: Path, kind: type[Value]) -> Value | None:
    """A JSON file's value; None if the file is missing, empty or null.

    Raises:
        UserError: the file holds something else.
    """
    if not path.is_file():
        return None
    content = path.read_bytes()
    if content.strip() in (b"", b"null"):
        return None
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"])) or "the file"
        raise UserError(f"{path}: {where}: {problem['msg']}; run the stage {path.parent.name} again") from error
