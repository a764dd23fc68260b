"""Promotions under faults, over HTTP with MLflow's own registry: decisions at once, and what must agree afterwards."""

import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from served_api import ask, bearer

from rubricworks.tracking import TrackingConfig, connect, registry

MODEL = "captioner"
_ROUNDS_OF_A_MODEL = 20


class Installation:
    """A service under faults and the folder of its registry."""

    def __init__(self, url: str, runs: Path) -> None:
        self.url, self.runs = f"{url}/api/v1", runs
        self._keys = 0
        connection = connect(TrackingConfig(), runs)
        assert connection is not None
        self._connection, self.model = connection, MODEL
        if MODEL not in registry.model_names(connection):
            connection.client.create_registered_model(MODEL)
        self.tokens = {name: self._token(name) for name in ("runner", "approver-a", "approver-b", "admin")}

    def post(self, who: str, path: str, body: dict[str, Any] | None = None, key: str = "") -> tuple[int, Any]:
        self._keys += 1
        head = {"Idempotency-Key": key or f"key-{time.monotonic_ns()}-{self._keys}"}
        return ask(f"{self.url}/{path}", method="POST", body=body or {}, **head, **bearer(self.tokens[who]))

    def get(self, path: str) -> Any:
        return ask(f"{self.url}/{path}", **bearer())[1]

    def pages(self, path: str) -> list[Any]:
        items, cursor = [], ""
        while cursor is not None:
            page = self.get(f"{path}?limit=200" + (f"&cursor={cursor}" if cursor else ""))
            items += page["items"]
            cursor = page["next_cursor"]
        return items

    def champion(self, model: str | None = None) -> int | None:
        return registry.aliases(self._connection, model or self.model).get(registry.CHAMPION)

    def begin_model(self, name: str) -> None:
        """Go on with a model that has a champion and one before it: MLflow reads all versions of a model each time."""
        self.model = name
        if name != MODEL:
            self._connection.client.create_registered_model(name)
        for _ in range(2):
            assert self.post("approver-a", f"promotions/{self.request()}/approve")[0] == 200

    def require_one_winner_each(self, rounds: int, urls: Sequence[str]) -> None:
        """Storms on one service after the other; of each, one decision wins and the others are refused."""
        for number in range(rounds):
            if number % _ROUNDS_OF_A_MODEL == 0:
                self.begin_model(f"{MODEL}-{number}" if number else MODEL)
            self.url = f"{urls[number % len(urls)]}/api/v1"
            answers = self.storm()
            assert sorted(status // 100 for status in answers) == [2, 4, 4]
            assert set(answers) <= {200, 201, 409}
        self.require_agreement()

    def add_version(self) -> int:
        """A version that waits for a decision against the champion of today."""
        tags = {registry.APPROVAL_TAG: registry.WAITING, "gate": "better", registry.DIGEST_TAG: "3f5a"}
        if champion := self.champion():
            tags[registry.OPPONENT_TAG] = str(champion)
        made = self._connection.client.create_model_version(self.model, source=str(self.runs), tags=tags)
        registry.nominate(self._connection, self.model, int(made.version))
        return int(made.version)

    def request(self) -> int:
        status, body = self.post("runner", "promotions", {"model": self.model, "version": self.add_version()})
        assert status == 201, body
        return int(body["id"])

    def storm(self) -> list[int]:
        """Two approvers and a rollback at once; their answers."""
        number, champion = self.request(), self.champion()
        rollback = {"model": self.model, "champion": champion, "reason": "it stutters"}
        work = [
            ("approver-a", f"promotions/{number}/approve", None),
            ("approver-b", f"promotions/{number}/approve", None),
            ("approver-b", "rollbacks", rollback),
        ]
        with ThreadPoolExecutor(3) as threads:
            return sorted(status for status, _ in threads.map(lambda arguments: self.post(*arguments), work))

    def require_agreement(self) -> None:
        """Alias, database and audit log agree, and each change stands once in the log."""
        promotions = sorted(self.pages("promotions"), key=lambda change: change["id"])
        assert not [promotion for promotion in promotions if promotion["state"] in ("applying", "requested")]
        applied = [promotion for promotion in promotions if promotion["state"] in ("applied", "confirmed")]
        for latest in {
            change["model"]: change for change in sorted(applied, key=lambda change: change["decided_at"])
        }.values():
            assert latest["version"] == self.champion(latest["model"])
        log = [
            change for change in self.pages("changes") if change["action"].split(".")[0] in ("promotion", "rollback")
        ]
        told = Counter(change["action"].split(".")[1] for change in log)
        assert told["request"] == len(promotions)
        assert told["apply"] == len(applied)
        assert told["fail"] == sum(promotion["state"] == "failed" for promotion in promotions)
        assert told["confirm"] == sum(promotion["state"] == "confirmed" for promotion in promotions)
        once = Counter((change["action"], change["subject"]) for change in log if change["action"] == "promotion.apply")
        assert set(once.values()) == {1}

    def _token(self, name: str) -> str:
        body = {"name": name, "scope": name.partition("-")[0]}
        status, answer = ask(f"{self.url}/tokens", method="POST", body=body, **bearer())
        assert status == 201, answer
        return str(answer["secret"])
