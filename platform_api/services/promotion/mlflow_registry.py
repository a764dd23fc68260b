"""MLflow's registry as promotions need it. MLflow is imported and reached on first use."""

import threading
import time
from pathlib import Path

from rubricworks.errors import UserError
from rubricworks.platform_api.problems import NotFound
from rubricworks.platform_api.services.promotion.promotions import Candidate, Standing
from rubricworks.tracking import Connection, ModelVersion, TrackingConfig, connect, registry
from rubricworks.tracking.gate import GateFinding, read_findings
from rubricworks.tracking.registry import RegisteredModel


class MlflowRegistry:
    """The registry that runs register models in."""

    def __init__(self, uri: str, runs: Path) -> None:
        """
        Args:
            uri: MLflow's URI; empty for the environment's, or else the file in the folder of runs.
            runs: folder of all runs.
        """
        self._uri, self._runs = uri, runs
        self._connection: Connection | None = None
        self._lock = threading.Lock()

    def standings(self, limit: int, token: str | None) -> tuple[list[Standing], str | None]:
        """Models of a page with their aliases, and the token of the next page.

        One request, and one for each challenger, or champion without one, that is not its model's newest version.

        Raises:
            UserError: the token is not one of this registry.
        """
        connection = self._connect()
        models, following = registry.model_page(connection, limit, token)
        return [_with_other_gates(connection, model) for model in models], following

    def champion(self, model: str) -> int | None:
        """A model's champion; None if it has none, or there is no such model."""
        return registry.aliases(self._connect(), model).get(registry.CHAMPION)

    def standing(self, model: str) -> Standing:
        """Aliases of a model."""
        connection = self._connect()
        return _standing(connection, RegisteredModel(name=model, aliases=registry.aliases(connection, model)))

    def candidate(self, model: str, version: int) -> Candidate:
        """A version of a model.

        Raises:
            NotFound: there is none; where the registry lies is no caller's concern.
        """
        connection = self._connect()
        champion = registry.aliases(connection, model).get(registry.CHAMPION)
        try:
            return _candidate(registry.get_version(connection, model, version), champion)
        except registry.UnknownVersion as error:
            raise NotFound(f"the registry has no {model} version {version}") from error

    def move(self, model: str, version: int, expected: int | None, decided_by: str) -> None:
        """Make a version the champion in place of the expected one."""
        connection = self._connect()
        registry.promote(connection, model, version, expected=expected)
        decided_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        tags = {registry.APPROVAL_TAG: "promoted", "decided_by": decided_by, "decided_at": decided_at}
        registry.tag(connection, registry.get_version(connection, model, version), tags)

    def _connect(self) -> Connection:
        with self._lock:
            if self._connection is None:
                self._connection = connect(TrackingConfig(uri=self._uri), self._runs)
            if self._connection is None:
                raise UserError("promotions need MLflow: pip install 'rubricworks[tracking]'")
            return self._connection


def _standing(connection: Connection, model: RegisteredModel) -> Standing:
    champion = model.aliases.get(registry.CHAMPION)
    challenger = registry.aliased_version(connection, model, registry.CHALLENGER)
    return Standing(
        model.name,
        champion,
        model.aliases.get(registry.PREVIOUS),
        _candidate(challenger, champion) if challenger else None,
    )


def _with_other_gates(connection: Connection, model: RegisteredModel) -> Standing:
    """Aliases of a model, with what other gates found.

    The champion's is told if there is no challenger whose gate is looked at; the newest version's if no alias was on a
    newer one, as where it failed its gate.
    """
    standing = _standing(connection, model)
    champion = None if standing.challenger else registry.aliased_version(connection, model, registry.CHAMPION)
    if champion:
        standing = standing._replace(promoted=_candidate(champion, None))
    newest = max(model.latest, key=lambda version: version.version, default=None)
    aliased = (standing.champion, standing.previous, standing.challenger and standing.challenger.version)
    if newest is None or newest.version <= max(version or 0 for version in aliased):
        return standing
    return standing._replace(newest=_candidate(newest, None))


def _candidate(version: ModelVersion, champion: int | None) -> Candidate:
    tags = version.tags
    is_of_today = champion is None or str(champion) == tags.get(registry.OPPONENT_TAG)
    gate = tags.get("gate", "")
    if not is_of_today:
        gate = f"it passed against version {tags.get(registry.OPPONENT_TAG)}, and another one is the champion now"
    digest = tags.get(registry.DIGEST_TAG, "")
    if not digest:
        gate = registry.NO_DIGEST
    waits = tags.get(registry.APPROVAL_TAG) == registry.WAITING and is_of_today and bool(digest)
    findings = read_findings(tags)
    if findings or not digest:  # a version that was registered by hand met no gate
        note = digest[:12] or "missing"
        findings = (*findings, GateFinding(rule="digest of its files", met=bool(digest), note=note))
    return Candidate(version.version, digest, gate, waits, findings, tags.get("run", ""))
