"""Writer of rubrics from text-to-image prompts (RubricRL, section 3.2).

Several queries ask for candidates, each with the aspects in another order, since a model favours what it reads first.
Their answers are pooled; malformed, ambiguous and ungrounded candidates and repetitions are dropped, each with its
reason; a second call selects the most important ones. A prompt's rubric depends on the prompt and the settings alone.
"""

import asyncio
import random
import re
from collections.abc import Sequence
from typing import NamedTuple

from rubricworks.errors import UserError
from rubricworks.llm import ChatClient, ChatError, Reply, Usage
from rubricworks.methods.rubricrl.rubric_keys import KeyControls
from rubricworks.methods.rubricrl.rubric_prompts import (
    DraftCriterion,
    RubricDraft,
    Selection,
    candidate_messages,
    selection_messages,
)
from rubricworks.rubrics import Criterion, Rubric

_MAX_CHARACTERS = 400
_WORD = re.compile(r"\w+")
_HEDGE = re.compile(
    r"\b(?:and/or|if (?:applicable|possible|present|any)|might|may be|possibly|perhaps|ideally|should|or so)\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|(?<!\w)'[^']*'(?!\w)")


class PromptRubricResult(NamedTuple):
    """Rubric of one prompt, with the candidates behind it."""

    rubric: Rubric | None
    """None if no candidate passed the checks."""
    pool: tuple[Criterion, ...]
    """Candidates that passed the checks, in the order of the queries."""
    dropped: tuple[tuple[str, str], ...]
    """Criterion and reason of the others."""
    failures: tuple[ChatError, ...]
    """Queries without a usable answer."""
    usage: Usage


class PromptRubricWriter:
    """Writer with one model."""

    def __init__(
        self,
        client: ChatClient,
        *,
        controls: KeyControls | None = None,
        queries: int = 3,
        per_query: int = 10,
        select: int = 10,
        seed: int = 0,
    ) -> None:
        """
        Args:
            controls: a user's changes to the pool of keys.
            queries: calls for candidates, each with the keys in another order.
            per_query: criteria that each call asks for.
            select: criteria of a finished rubric, at most.
            seed: of the orders of the keys.
        """
        for name, value in (("queries", queries), ("per_query", per_query), ("select", select)):
            if value < 1:
                raise UserError(f"{name} is {value}; it is at least 1")
        self.client = client
        self.controls = controls or KeyControls()
        self.queries, self.per_query, self.select = queries, per_query, select
        self.seed = seed

    async def write(self, prompt: str) -> PromptRubricResult:
        """Write the rubric of one prompt.

        Raises:
            ChatError: no query brought a usable answer, or the selection failed.
        """
        replies = await asyncio.gather(*(self._query(prompt, at) for at in range(self.queries)), return_exceptions=True)
        drafts: list[DraftCriterion] = []
        failures: list[ChatError] = []
        usage = Usage()
        for reply in replies:
            if isinstance(reply, ChatError):
                failures.append(reply)
            elif isinstance(reply, BaseException):
                raise reply
            else:
                drafts += reply.value.rubrics
                usage = usage.plus(reply.usage)
        if len(failures) == self.queries:
            raise failures[0]
        pool, dropped = self._check(drafts, prompt)
        if len(pool) > self.select:
            messages = selection_messages(
                prompt,
                [(criterion.key, criterion.criterion) for criterion in pool],
                self.select,
                [key for key in self.controls.require if any(criterion.key == key for criterion in pool)],
            )
            answer = await self.client.chat(messages, Selection, check=lambda choice: _check_ids(choice, len(pool)))
            usage = usage.plus(answer.usage)
            chosen = [pool[number - 1] for number in dict.fromkeys(answer.value.selected)][: self.select]
            chosen = self._with_required(chosen, pool)
        else:
            chosen = list(pool)
        rubric = Rubric(criteria=tuple(chosen)) if chosen else None
        return PromptRubricResult(rubric, tuple(pool), tuple(dropped), tuple(failures), usage)

    async def _query(self, prompt: str, at: int) -> Reply[RubricDraft]:
        """Ask for candidates, with the keys in the order of this query."""
        keys = list(self.controls.pool().items())
        random.Random(f"{self.seed} {at}").shuffle(keys)
        return await self.client.chat(candidate_messages(prompt, dict(keys), self.per_query), RubricDraft, at)

    def _check(self, drafts: Sequence[DraftCriterion], prompt: str) -> tuple[list[Criterion], list[tuple[str, str]]]:
        """Split candidates into criteria and faulty ones with reasons."""
        pool: list[Criterion] = []
        dropped: list[tuple[str, str]] = []
        seen: set[tuple[str, ...]] = set()
        said = " ".join(_words(prompt))
        for draft in drafts:
            words = _words(draft.criterion)
            reason = self._fault(draft, words, said) or ("it repeats an earlier candidate" if words in seen else "")
            if reason:
                dropped.append((draft.criterion, reason))
                continue
            seen.add(words)
            weight = self.controls.weights.get(draft.eval_key, 1.0)
            pool.append(Criterion(criterion=draft.criterion.strip(), key=draft.eval_key, weight=weight))
        return pool, dropped

    def _fault(self, draft: DraftCriterion, words: tuple[str, ...], prompt: str) -> str:
        """Reason to drop a candidate; empty if there is none."""
        pool = self.controls.pool()
        if not words:
            return "malformed: it says nothing"
        if len(draft.criterion) > _MAX_CHARACTERS:
            return f"malformed: it has more than {_MAX_CHARACTERS} characters"
        if draft.eval_key in self.controls.forbid:
            return "its key is forbidden"
        if draft.eval_key not in pool:
            return "malformed: its key is not in the pool"
        if _HEDGE.search(_QUOTED.sub("", draft.criterion)):
            return "ambiguous: it leaves open what the image must show"
        evidence = _words(draft.evidence)
        if not evidence:
            return "" if self.controls.is_quality(draft.eval_key) else "ungrounded: it rests on no words of the prompt"
        if not _contains(prompt, " ".join(evidence)):
            return "ungrounded: the prompt does not contain the words that it rests on"
        return ""

    def _with_required(self, chosen: list[Criterion], pool: Sequence[Criterion]) -> list[Criterion]:
        """Add a candidate of each required key that the selection left out, in place of its last choices."""
        for key in self.controls.require:
            candidate = next((criterion for criterion in pool if criterion.key == key), None)
            if candidate is None or any(criterion.key == key for criterion in chosen):
                continue
            if len(chosen) >= self.select:
                spare = [at for at, criterion in enumerate(chosen) if criterion.key not in self.controls.require]
                del chosen[spare[-1] if spare else -1]
            chosen.append(candidate)
        return chosen


def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(text.casefold()))


def _contains(text: str, part: str) -> bool:
    """Return True if `part` is in `text`, as whole words in a script that separates them by spaces."""
    before = r"(?<![a-z0-9])" if part[0].isascii() else ""
    after = r"(?![a-z0-9])" if part[-1].isascii() else ""
    return re.search(before + re.escape(part) + after, text) is not None


def _check_ids(selection: Selection, count: int) -> None:
    if wrong := [number for number in selection.selected if not 1 <= number <= count]:
        raise ValueError(f"candidate {wrong[0]} does not exist; they are numbered from 1 to {count}")
