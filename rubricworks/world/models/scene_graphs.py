"""The scripted parser of CAPTURE: a caption's scene graph, without errors and without a look at the image."""

import json

from rubricworks.world.chat import ChatRequest, section
from rubricworks.world.scene.parsing import Mention, mentions
from rubricworks.world.scene.scene import Scene

NOTHING_TO_PARSE = "I parse captions into scene graphs; this message holds no <caption>."


def graph_parser_reply(request: ChatRequest, scene: Scene | None, seed: int) -> str:
    """The JSON answer: shapes are objects, colours and sizes their attributes, places and sides relations."""
    if (caption := section(request.prompt, "caption")) is None:
        return NOTHING_TO_PARSE
    stated = mentions(caption)
    objects: dict[str, dict[str, None]] = {}
    relations: dict[tuple[str, str, str], None] = {}
    for item in stated.objects:
        objects.setdefault(_noun(item), {}).update(dict.fromkeys(word for word in (item.size, item.colour) if word))
        if item.cell:
            objects.setdefault(item.cell, {})
            relations[_noun(item), "at", item.cell] = None
    for relation in stated.relations:
        for item in (relation.subject, relation.other):
            objects.setdefault(_noun(item), {}).update(dict.fromkeys([item.colour] if item.colour else []))
        relations[_noun(relation.subject), relation.kind, _noun(relation.other)] = None
    for word in stated.words:
        objects.setdefault("word", {})[word.lower()] = None
    return json.dumps(
        {
            "objects": list(objects),
            "attributes": [{"object": name, "attributes": list(words)} for name, words in objects.items() if words],
            "relations": [
                dict(zip(("subject", "relation", "object"), relation, strict=True)) for relation in relations
            ],
        }
    )


def _noun(item: Mention) -> str:
    return item.shape or "object"
