"""Error rates of a policy's judge from a file of `rubricworks agreement --json` (`policy.reward.noise_correction`).

Rates apply only to the judge that they were measured on: its name, revision, the model that its responses report, and
the version of its prompt. The file records all of these. A training with another judge is refused, and a report that
names such a file says so (`report.agreement`).
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rubricworks.errors import UserError
from rubricworks.grading.agreement.judge_errors import JudgeErrors, WeightErrors
from rubricworks.grading.agreement.report import AgreementReport, JudgeIdentity
from rubricworks.llm import Endpoint
from rubricworks.llm.identity import Identity
from rubricworks.rewards import NoiseRates
from rubricworks.runtime.store.source_files import local_source
from rubricworks.storage import local_path

AGREEMENT_FILE = "judge_agreement.json"
"""Copy of the file in the training's output."""
AGREEMENT_FIELD = "policy.reward.noise_correction.agreement"


class MeasuredRates(BaseModel):
    """Rates that a file states."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    agreement: str = Field(min_length=1)
    """File that `rubricworks agreement --json` wrote, of labels and of this judge's verdicts: a path, such as one below
    a folder of `cluster.config_map_files`, `s3://bucket/agreement.json`, or `org/name@COMMIT/agreement.json` of a data
    set of the Hub.
    """
    by_weight: bool = False
    """Use the rates per weight that `agreement --rubrics` reports, instead of one pair."""

    @cached_property
    def content(self) -> bytes:
        """The file, fetched once: its digest, the rates and the copy are of the same bytes, whatever happens to it.

        Raises:
            UserError: there is no such file, or the store or the Hub refuses it.
            TransientError: the store or the Hub does not answer.
        """
        return agreement_content(self.agreement, AGREEMENT_FIELD)

    def digest(self) -> str:
        """Digest of the file, for the record of the training."""
        return hashlib.sha256(self.content).hexdigest()


@dataclass(frozen=True)
class Measurement:
    """Rates of a judge, and the identity that they were measured on."""

    rates: NoiseRates | dict[float, NoiseRates]
    identities: tuple[Identity | None, ...]
    """Identities that each judge's responses stated; None without any."""


def read_measurement(
    measured: MeasuredRates, judges: Sequence[Endpoint], prompt: str, *, weights: Collection[float] = ()
) -> Measurement:
    """Read the rates of a policy's judge.

    Args:
        judges: the policy's; several are one panel.
        prompt: version of the prompt that they are asked with.
        weights: those that the rates by weight have to hold.
    Raises:
        UserError: the file has no rates of this judge, or they were measured on another model, revision or prompt.
    """
    file = measured.agreement
    report = parse_agreement(measured.content, file)
    name = " + ".join(judge.rater for judge in judges)
    try:
        identity = measured_identity(report, name, [(judge.model, judge.revision) for judge in judges], (prompt,))
    except OtherJudge as error:
        raise _refusal(file, str(error)) from None
    errors = next((error for error in report.errors if error.judge == identity.rater), None)
    if errors is None:
        raise _refusal(file, f"has no error rates of {name}; they need labels of people, and credits of 0 or 1")
    rates = _by_weight(file, errors, weights) if measured.by_weight else _rates(file, errors, "all criteria")
    return Measurement(rates, tuple(entry.identity for entry in identity.entries))


class OtherJudge(Exception):
    """The agreement was measured on a different judge than the one that grades. The message begins with a verb."""


def measured_identity(
    report: AgreementReport,
    name: str,
    judges: Sequence[tuple[str, str]],
    prompts: Collection[str],
    answers: Mapping[str, Collection[Identity]] = MappingProxyType({}),
) -> JudgeIdentity:
    """Return the identity that a file's figures of a judge were measured on, if it is the one that grades.

    Args:
        name: of the judge, as its scorecards have it.
        judges: model and revision of its endpoints; several are one panel.
        prompts: versions of the prompts that they are asked with; none if that is not known.
        answers: model → identities that its answers state, where that is known.
    Raises:
        OtherJudge: the file has no identity of it, or of another model, revision or prompt.
    """
    measured = next((identity for identity in report.identities if identity.judge == name), None)
    if measured is None:
        if not report.identities:
            raise OtherJudge(
                f"tells no identity of {name}; measure it on scorecards that lie in their run, beside its "
                "identities.json"
            )
        others = ", ".join(dict.fromkeys(identity.judge for identity in report.identities))
        raise OtherJudge(f"measured {others}, and the judge that grades is {name}; measure that one")
    if len(measured.entries) != len(judges):
        raise OtherJudge(
            f"has verdicts of {name} by {len(measured.entries)} servers, and the policy has {len(judges)}; measure the "
            "judge that trains"
        )
    for entry, (model, revision) in zip(measured.entries, judges, strict=True):
        if entry.revision != revision:
            raise OtherJudge(
                f"measured {model} of revision {entry.revision or '(none)'}, and the recipe's judge has "
                f"{revision or '(none)'}; measure that one"
            )
        asked = {_prompt_name(prompt) for prompt in prompts}
        mine = {prompt for prompt in entry.prompts if _prompt_name(prompt) in asked}
        if prompts and (not mine or mine - set(prompts)):
            then = ", ".join(sorted(mine or entry.prompts)) or "no such prompt"
            now = ", ".join(sorted(prompts))
            raise OtherJudge(f"measured {model} asked by {then}, and it is asked by {now} now; measure it anew")
        stated = answers.get(model)
        if stated and entry.identity and entry.identity not in stated:
            raise OtherJudge(
                f"measured {model} as {entry.identity}, and it answers as "
                f"{', '.join(map(str, sorted(stated)))}; measure the model that answers now"
            )
    return measured


def _prompt_name(version: str) -> str:
    return version.rpartition("-")[0]


def agreement_content(file: str, field: str) -> bytes:
    """Fetch a file of `rubricworks agreement --json` from a path, a store or the Hub.

    Args:
        field: name of the recipe's field, for messages.
    Raises:
        UserError: there is no such file, or the store or the Hub refuses it.
        TransientError: the store or the Hub does not answer.
    """
    try:
        return local_path(local_source(file, field)).read_bytes()
    except OSError as error:
        raise UserError(
            f"{field}: {file} cannot be read ({error.strerror}); write it by "
            "rubricworks agreement LABELS.csv SCORECARDS --json"
        ) from None


def parse_agreement(content: bytes, file: str, field: str = AGREEMENT_FIELD) -> AgreementReport:
    """Parse what `rubricworks agreement --json` wrote.

    Args:
        field: name of the recipe's field, for messages.
    Raises:
        UserError: it is something else.
    """
    try:
        return AgreementReport.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "it"
        raise UserError(
            f"{field}: {file} is no file of rubricworks agreement --json: {where}: {first['msg']}"
        ) from None


def stated_rates(report: AgreementReport, judge: str, file: str, *, by_weight: bool) -> list[tuple[str, NoiseRates]]:
    """A judge's rates with the criteria that they apply to, for a run's report; empty if it has none."""
    errors = next((error for error in report.errors if error.judge in _raters(report, judge)), None)
    if errors is None:
        return []
    if by_weight:
        rates = _by_weight(file, errors, ())
        return [(f"criteria of weight {weight:g}", rate) for weight, rate in rates.items()]
    return [("all criteria", _rates(file, errors, "all criteria"))]


def _raters(report: AgreementReport, judge: str) -> set[str]:
    return {identity.rater for identity in report.identities if identity.judge == judge}


def _by_weight(file: str, errors: JudgeErrors, weights: Collection[float]) -> dict[float, NoiseRates]:
    if not errors.by_weight:
        raise _refusal(file, "has no rates by weight; name the rubrics to agreement by --rubrics")
    known = {of_weight.weight: of_weight for of_weight in errors.by_weight}
    if missing := sorted(set(weights) - known.keys()):
        raise _refusal(
            file,
            f"has no rates for weight {', '.join(f'{weight:g}' for weight in missing)}; label such criteria, or leave "
            "by_weight out",
        )
    return {weight: _rates(file, of_weight, f"weight {weight:g}") for weight, of_weight in known.items()}


def _rates(file: str, errors: JudgeErrors | WeightErrors, criteria: str) -> NoiseRates:
    positive, negative = errors.false_positive, errors.false_negative
    if positive is None or negative is None:
        kind = "not met" if positive is None else "met"
        raise _refusal(file, f"has no label of {criteria} that is {kind}, so a rate is not known; label some")
    try:
        return NoiseRates(false_positive=positive.value, false_negative=negative.value)
    except ValidationError:
        raise _refusal(
            file,
            f"tells false positives of {positive.value:.0%} and false negatives of {negative.value:.0%} of {criteria}, "
            "1 together or more: such verdicts say nothing; take another judge",
        ) from None


def _refusal(file: str, problem: str) -> UserError:
    return UserError(f"{AGREEMENT_FIELD}: {file} {problem}")
