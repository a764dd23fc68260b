"""`rubricworks conformance`: what a trainer, or a reward function, makes of a rollout that could not be judged."""

import importlib
import inspect
import json
import os
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import click

from rubricworks.adapters.conformance import CASES, Finding, Trainer, check_trainer
from rubricworks.adapters.conformance.bad_judge import serve_bad_judge
from rubricworks.adapters.conformance.reward import check_reward
from rubricworks.adapters.functions import check_signature, import_function
from rubricworks.errors import UserError
from rubricworks.terminal import echo

_PEERS = {"trl": "TrlTrainer", "verl": "VerlTrainer", "verifiers": "VerifiersRollouts"}


@click.command()
@click.argument("target", metavar="trl|verl|verifiers|MODULE:NAME")
@click.option(
    "--trainer", "is_trainer", is_flag=True, help="MODULE:NAME is a trainer (`adapters.conformance.Trainer`)."
)
@click.option("--row", metavar="FILE", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="JSON object with the columns of a row, such as prompt and rubric.")  # fmt: skip
@click.option("--answer", metavar="TEXT", help="What the reward's judge answers; without it the judge only fails.")
@click.option("--judge-env", default="OPENAI_BASE_URL", show_default=True,
              help="Variable that the reward takes its judge's address from.")  # fmt: skip
@click.option("--wait", "wait_s", default=60.0, show_default=True, type=click.FloatRange(min=0, min_open=True),
              help="Seconds that the reward may take.")  # fmt: skip
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
@click.pass_context
def conformance(
    context: click.Context,
    target: str,
    is_trainer: bool,
    row: Path | None,
    answer: str | None,
    judge_env: str,
    wait_s: float,
    markdown: bool,
) -> None:
    """Check that a judge's failure never becomes a reward of 0.

    A trainer (trl, verl, verifiers) gets groups of rollouts in which rewards are missing, by its own reward functions,
    and its advantages are compared with those of the group without them. MODULE:NAME is a reward function of TRL's
    signature: its judge fails on one rollout of four, which must then have no reward.

    The exit code is 1 if a failure became a number.

    \b
    rubricworks conformance trl
    rubricworks conformance my_rewards:rubric_reward --row row.json --answer '{"score": 1}'
    """
    name = target
    if target in _PEERS or is_trainer:
        trainer: Trainer = import_function(target)() if is_trainer else _peer(target)
        name = f"{trainer.package} {_version(trainer.package)}".strip()
        findings = [check_trainer(trainer, case) for case in CASES]
    else:
        with serve_bad_judge(answer) as judge:
            os.environ[judge_env] = judge.url
            os.environ.setdefault("OPENAI_API_KEY", "none")  # OpenAI's client wants one
            columns = _columns(row)
            findings = check_reward(_reward(target, columns), judge, columns, wait_s=wait_s)
    echo(_markdown(name, findings) if markdown else _table(name, findings))
    context.exit(0 if all(finding.outcome.keeps for finding in findings) else 1)


def _peer(name: str) -> Trainer:
    try:
        module = importlib.import_module(f"rubricworks.adapters.conformance.{name}")
    except ImportError as error:
        raise UserError(
            f"{name} cannot be imported ({error}); run this in the environment that you train in, with rubricworks "
            "installed there"
        ) from None
    trainer: Trainer = getattr(module, _PEERS[name])()
    return trainer


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _reward(target: str, row: Mapping[str, object]) -> Callable[..., Any]:
    function = import_function(target)
    if inspect.isclass(function):
        raise UserError(f"{target} is a class; name a function, or an object that can be called")
    names = {"prompts", "completions", "completion_ids"} | row.keys() - {"prompt"}
    columns: dict[str, object] = {name: [] for name in names}
    return check_signature(function, target, "(prompts, completions, **columns)", **columns)


def _columns(file: Path | None) -> dict[str, object]:
    if file is None:
        return {}
    try:
        row = json.loads(file.read_bytes())
    except ValueError as error:
        raise UserError(f"{file}: {error}; it must be one JSON object, the columns of a row") from None
    if not isinstance(row, dict):
        raise UserError(f"{file}: it is {type(row).__name__}; it must be one JSON object, the columns of a row")
    return row


def _mark(finding: Finding) -> str:
    return "ok" if finding.outcome.keeps else "FAIL"


def _table(name: str, findings: Sequence[Finding]) -> str:
    lines = [name]
    for finding in findings:
        lines.append(f"{_mark(finding):<5}{finding.case:<18}{finding.outcome.value:<14}{finding.seen}")
        lines.append(f"{'':<5}{finding.story}{f' ({finding.line})' if finding.line else ''}")
    failed = sum(not finding.outcome.keeps for finding in findings)
    return "\n".join([*lines, f"{len(findings) - failed} of {len(findings)} cases: no failure becomes a number"])


def _markdown(name: str, findings: Sequence[Finding]) -> str:
    lines = [
        f"| {name} | case | outcome | advantages, the unjudged in brackets | decided at |",
        "|---|---|---|---|---|",
    ]
    for finding in findings:
        place = f"`{finding.line}`" if finding.line else ""
        lines.append(f"| {_mark(finding)} | {finding.case} | {finding.outcome.value} | `{finding.seen}` | {place} |")
    return "\n".join(lines)
