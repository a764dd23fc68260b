"""Pre-registered claims of a paper: which arms are compared, by which metric, in which direction, with which margin.

A registration is a YAML file beside its method, committed before the first run. Its digest is stored with every result
and printed on the page; results of another registration are refused.
"""

import hashlib
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from rubricworks.errors import UserError
from rubricworks.recipe import METHODS
from rubricworks.runtime.config import canonical_json
from rubricworks.strict_yaml import YamlError, parse_yaml

REGISTRATION = "claims.yaml"
OWN, BASE = "own", "base"
"""The recipe itself among the arms, and the model that it starts from."""
Direction = Literal["greater", "smaller", "equivalent"]
Instrument = Literal["student", "behavioural"]


class Claim(BaseModel):
    """A statement of a paper about a difference between two arms."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    source: str
    """Table, figure or section of the paper."""
    says: str
    """The paper's sentence in short."""
    arms: tuple[str, str]
    """The difference is that of the first arm minus the second."""
    metric: str
    direction: Direction = "greater"
    margin: float | None = Field(default=None, gt=0)
    """δ: a smaller difference does not matter. By default the registration's."""
    programmed: bool = False
    """It follows from a programmed table of a scripted model, whatever the student learns."""
    instrument: Instrument = "student"
    gates: tuple[str, ...] = ()
    """Gates of the world that it depends on, beside those of the whole registration."""
    cannot_run: str = ""
    """Reason why its arms cannot be run here; such a claim is not testable here."""


class Blinded(BaseModel):
    """A number of seeds that the spread of the first ones fixes, without a look at their mean."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pilot: int = Field(ge=2)
    """Seeds of a first look, which gives no verdict."""
    at: int = Field(ge=3)
    """Seeds after which the standard deviation fixes the number."""
    most: int
    power: float = Field(default=0.8, gt=0.5, lt=1)


class Registration(BaseModel):
    """All primary claims of a paper, and how they are tested."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    paper: str
    recipe: str
    """Recipe whose own run and arms are compared."""
    settings: tuple[str, ...] = ()
    """Changes of the recipe in every run but those of an arm that sets such a field itself; `a.b=c` each."""
    own_run: tuple[str, ...] = (OWN, BASE)
    """Arms that the recipe's own run gives; every other one is a run of the recipe's arm of that name."""
    seeds: int = Field(ge=2)
    blinded: Blinded | None = None
    alpha: float = Field(default=0.025, gt=0, lt=0.5)
    """Error on each side over all claims of the paper (Holm)."""
    margin: float = Field(gt=0)
    gates: tuple[str, ...] = ()
    """Gates of the world that every claim depends on."""
    claims: tuple[Claim, ...] = Field(min_length=1)
    notes: tuple[str, ...] = ()
    cpu_seconds: dict[str, float] = {}
    """Run → measured CPU-seconds, for the cost before anything ran; not part of the registration."""

    @model_validator(mode="after")
    def _consistent(self) -> "Registration":
        ids = [claim.id for claim in self.claims]
        if twice := sorted({name for name in ids if ids.count(name) > 1}):
            raise ValueError(f"two claims have the id {twice[0]}; give each its own")
        for claim in self.claims:
            if claim.arms[0] == claim.arms[1]:
                raise ValueError(f"{claim.id}: compares {claim.arms[0]} with itself; name two arms")
        return self

    @property
    def digest(self) -> str:
        """First 12 hexadecimal digits of the SHA-256 of all that is registered."""
        content = canonical_json(self.model_dump(mode="json", exclude={"cpu_seconds"}))
        return hashlib.sha256(content.encode()).hexdigest()[:12]

    @property
    def runs(self) -> tuple[str, ...]:
        """Runs of each seed: the recipe's own, then the arms that some claim needs, in the order of the claims."""
        arms = [arm for claim in self.claims if not claim.cannot_run for arm in claim.arms]
        return (OWN, *dict.fromkeys(arm for arm in arms if arm not in self.own_run))

    def margin_of(self, claim: Claim) -> float:
        return claim.margin or self.margin


def methods_with_claims() -> list[str]:
    """Methods with a registration, in the order of the methods' table."""
    return [method for method in METHODS if registration_path(method).is_file()]


def registration_path(method: str) -> Path:
    spec = find_spec(METHODS[method])
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0]) / REGISTRATION


def load_registration(path: Path) -> Registration:
    """Read a registration.

    Raises:
        UserError: the file is no registration; names the first fault.
    """
    try:
        return Registration.model_validate(parse_yaml(path.read_text()).value)
    except YamlError as error:
        raise UserError(f"{path}: line {error.line}: {error}; correct the registration") from error
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(map(str, fault["loc"]))
        raise UserError(f"{path}: {where}: {fault['msg']}; correct the registration") from error
