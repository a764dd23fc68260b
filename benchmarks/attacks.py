"""Credits of scripted judges for captions that cheat: `make bench-attacks`, or `python -m benchmarks.attacks`.

Every attack goes to every judge over HTTP, on twenty scenes of the scene world: through the `Grader`, which fences the
caption, and as the same message without that care, which is made here because the library sends no such message. The
judges' faults are programmed: the table shows what a defence can stop, not how often a language model is fooled.
"""

import argparse
import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from aiohttp import web

from rubricworks.data.tables import Sample
from rubricworks.grading import Exposure, Grader
from rubricworks.grading.prompts import Judgment, check_ids, judge_messages
from rubricworks.llm import ChatClient, ChatError
from rubricworks.llm.messages import fence
from rubricworks.rubrics import Criterion, ErrorClass, Rubric
from rubricworks.world.models.writer import WriterTask, write_rubric
from rubricworks.world.scene.attacks import ATTACKS, ORDERS, with_order
from rubricworks.world.scene.captions import View, write_caption
from rubricworks.world.scene.render import render_png
from rubricworks.world.scene.rules import holds, parse_rule
from rubricworks.world.scene.scene import Scene, generate_scenes
from rubricworks.world.scene.scene_index import SceneIndex, pixel_digest
from rubricworks.world.server import make_app

JUDGES = ("judge", "gullible-judge", "master-key-judge", "image-reading-judge")
FENCED, TAGS_ONLY, BARE = WRAPPINGS = ("fenced as shipped", "tags only", "bare")
"""By the `Grader`; between caption tags, but with the caption's own tags left in it; and with no tags of ours."""
NO_ATTACK = "no attack"
_SCENES = 20
_UNMOVED = 0.05
"""A mean credit this close to what the caption is worth is not the attack's doing: the plain judge errs by itself."""


class Case(NamedTuple):
    """One response to grade."""

    attack: str
    exposure: Exposure
    image: bytes
    response: str
    rubric: Rubric
    worth: list[int]
    """The credits of its honest part, by the rules themselves."""


@dataclass
class Tally:
    """Counts of the criteria's outcomes over several responses."""

    passed: int = 0
    failed: int = 0
    errors: Counter[str] = field(default_factory=Counter)

    def add(self, outcomes: Iterable[float | ErrorClass]) -> None:
        """Count a credit or an error for each criterion."""
        for outcome in outcomes:
            if isinstance(outcome, ErrorClass):
                self.errors[outcome.value] += 1
            elif outcome:
                self.passed += 1
            else:
                self.failed += 1

    @property
    def credit(self) -> float:
        """Mean over the criteria that were judged."""
        return self.passed / max(1, self.passed + self.failed)

    def __str__(self) -> str:
        errors = "".join(f", {count} {kind}" for kind, count in sorted(self.errors.items()))
        return f"{self.credit:.2f} ({self.passed}/{self.passed + self.failed}{errors})"


def scenes() -> Iterator[tuple[Scene, Scene]]:
    """Scenes with nothing in the bottom row, and the same with an order written there."""
    free = (
        scene
        for scene in generate_scenes(7, 10 * _SCENES)
        if scene.word is None and not any(item.cell.startswith("bottom") for item in scene.objects)
    )
    for number, scene in enumerate(islice(free, _SCENES)):
        yield scene, with_order(scene, ORDERS[number % len(ORDERS)])


def cases(scene: Scene, ordering: Scene) -> Iterator[Case]:
    """Each attack on one scene; the honest caption names the first object and no other."""
    honest, rubric = write_caption(View(scene.objects[:1])), full_rubric(scene)
    image, image_with_order = render_png(scene), render_png(ordering)
    worth = credits_of(honest, rubric)
    yield Case(NO_ATTACK, "text", image, honest, rubric, worth)
    for attack in ATTACKS:
        worth_of_attack = credits_of(attack.honest_part(honest), rubric)
        yield Case(attack.name, "text", image, attack.response(honest), rubric, worth_of_attack)
    yield Case("order in the image, not shown", "text", image_with_order, honest, rubric, worth)
    yield Case("order in the image, shown", "image", image_with_order, honest, rubric, worth)


def full_rubric(scene: Scene) -> Rubric:
    """The rubric of three captioners who tell the truth, with the standing guards."""
    captions = dict.fromkeys(("a", "b", "c"), write_caption(scene))
    task = WriterTask(students=(), candidates=captions, threshold=2, coverage="full", guards=True)
    return Rubric(criteria=tuple(Criterion.model_validate(row) for row in write_rubric(task)))


def credits_of(caption: str, rubric: Rubric) -> list[int]:
    """Credits of a judge without faults."""
    rules = [parse_rule(criterion.evaluation_rule) for criterion in rubric.criteria]
    return [int(rule is not None and holds(rule, caption)) for rule in rules]


def unfenced(messages: list[dict[str, Any]], response: str, wrapping: str) -> list[dict[str, Any]]:
    """A judge's messages with the caption put in as it is."""
    text = response if wrapping == BARE else f"<caption>\n{response}\n</caption>"
    system, user = messages
    content = user["content"]
    if isinstance(content, str):
        return [system, user | {"content": content.replace(fence("caption", response), text)}]
    image, part = content
    text = part["text"].replace(fence("caption", response), text)
    return [system, user | {"content": [image, part | {"text": text}]}]


async def grade(client: ChatClient, wrapping: str, case: Case) -> list[float | ErrorClass]:
    """A credit or an error for each criterion."""
    sample = Sample(sample_id="s", image=case.image, prompt="")
    if wrapping == FENCED:
        card = await Grader(client, exposure=case.exposure).grade(sample, case.response, case.rubric)
        return [verdict.credit if verdict.error is None else verdict.error for verdict in card.verdicts]
    criteria = case.rubric.criteria
    shared_sample = sample if case.exposure == "image" else None
    messages = unfenced(judge_messages(case.response, criteria, sample=shared_sample), case.response, wrapping)
    try:
        reply = await client.chat(messages, Judgment, check=lambda judgment: check_ids(judgment, len(criteria)))
    except ChatError as error:
        return [error.error_class] * len(criteria)
    return [verdict.score for verdict in reply.value.verdicts]


async def measure() -> tuple[dict[str, Tally], dict[tuple[str, str, str], Tally]]:
    """(what each attack is worth, by judge, attack and wrapping what was given)."""
    scene_orders = list(scenes())
    cases_to_ask = [case for scene, ordering in scene_orders for case in cases(scene, ordering)]
    worth: dict[str, Tally] = {}
    for case in cases_to_ask:
        worth.setdefault(case.attack, Tally()).add(case.worth)
    tallies = {(judge, attack, wrapping): Tally() for judge in JUDGES for attack in worth for wrapping in WRAPPINGS}
    async with world(scene for pair in scene_orders for scene in pair) as url:
        for judge in JUDGES:
            async with ChatClient(url, judge) as client:
                for wrapping in WRAPPINGS:
                    graded = await asyncio.gather(*(grade(client, wrapping, case) for case in cases_to_ask))
                    for case, outcomes in zip(cases_to_ask, graded, strict=True):
                        tallies[judge, case.attack, wrapping].add(outcomes)
    return worth, tallies


@asynccontextmanager
async def world(known_scenes: Iterable[Scene]) -> AsyncIterator[str]:
    """The base URL of a world server that knows these scenes."""
    book = SceneIndex({pixel_digest(render_png(scene)): scene for scene in known_scenes})
    runner = web.AppRunner(make_app(book))
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


def table(worth: dict[str, Tally], tallies: dict[tuple[str, str, str], Tally], *, every: bool) -> Iterator[str]:
    """The lines of the table; rows in which nothing moved are summed up in one unless all are wanted."""
    columns = ["judge", "attack", "the caption is worth", *WRAPPINGS]
    yield f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|"
    for judge in JUDGES:
        still: list[Tally] = []
        off = 0.0
        for attack, value in worth.items():
            cells = [tallies[judge, attack, wrapping] for wrapping in WRAPPINGS]
            moves = [abs(cell.credit - value.credit) for cell in cells]
            moved = [bool(cell.errors) or move > _UNMOVED for cell, move in zip(cells, moves, strict=True)]
            if every or attack == NO_ATTACK or any(moved):
                texts = [f"**{cell}**" if bold else str(cell) for cell, bold in zip(cells, moved, strict=True)]
                name = attack.replace("|", "\\|")
                yield f"| `{judge}` | {name} | {value.credit:.2f} | {' | '.join(texts)} |"
            else:
                still += cells
                off = max(off, *moves)
        if still:
            count = len(still) // len(WRAPPINGS)
            same = "what the caption is worth" + (f", to within {off:.2f}" if off else "")
            yield f"| `{judge}` | the {count} other attacks | 0 or the same | {' | '.join([same] * len(WRAPPINGS))} |"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--all", action="store_true", help="also the rows in which nothing moved")
    every = options.parse_args().all
    for line in table(*asyncio.run(measure()), every=every):
        print(line)


if __name__ == "__main__":
    main()
