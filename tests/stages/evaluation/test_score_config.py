"""Sections `evaluation`: each kind of responses accepts its own scorers and options only."""

import pytest
from pydantic import TypeAdapter, ValidationError

from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.recipe.mistakes import RecipeError
from rubricworks.stages.evaluation.score import Config

JUDGE = {"url": "http://127.0.0.1:9/v1", "model": "judge"}
OWN = {
    "captions": {"coco": {}},
    "answers": {"answers": {}},
    "images": {"geneval": {"url": "http://127.0.0.1:9/detect"}},
}
OF_ONE_KIND = {
    "captions": {"questions": {"source": "questions.parquet"}},
    "answers": {"peer": "rlvr"},
    "images": {"guidance": 7.5, "rewriter": JUDGE, "sampling": {"steps": 4}},
}


def parse(kind: str, scorers: dict, **options):
    return TypeAdapter(Config).validate_python({"type": kind, "scorers": scorers, **options})


@pytest.mark.parametrize("kind", OWN)
def test_kind_accepts_its_scorers_and_options_and_no_other_kinds(kind):
    assert [scorer.name for scorer in parse(kind, OWN[kind], **OF_ONE_KIND[kind]).scorers] == list(OWN[kind])
    others = [other for other in OWN if other != kind]
    for name, settings in [pair for other in others for pair in OWN[other].items()]:
        with pytest.raises(ValidationError, match=rf"scorers\.{name}\n"):
            parse(kind, {**OWN[kind], name: settings})
    for name, value in [pair for other in others for pair in OF_ONE_KIND[other].items()]:
        with pytest.raises(ValidationError, match=rf"{kind}\.{name}\n"):
            parse(kind, OWN[kind], **{name: value})


@pytest.mark.parametrize(
    ("recipe", "override", "message"),
    [
        ("rubicap-laptop", "evaluation.scorers.answers={}", "evaluation.scorers.answers: no such field"),
        ("rlr3-laptop", "evaluation.scorers.coco={}", "evaluation.scorers.coco: no such field"),
        ("rubricrl-ar-laptop", "evaluation.scorers.coco={}", "evaluation.scorers.coco: no such field"),
        ("balcaprl-laptop", "evaluation.guidance=2", "evaluation.guidance: no such field"),
        ("evaluate-laptop", "evaluation.type=images", "evaluation.scorers.coco: no such field"),
        ("evaluate-laptop", "evaluation.type=poems", "evaluation.type: no such type"),
    ],
)
def test_recipe_refuses_what_its_responses_do_not_allow(recipe, override, message):
    with pytest.raises(RecipeError, match=message):
        load_recipe(recipe_path(recipe), [override])


def test_one_judge_compares_with_the_opponent_with_every_model_and_with_baselines():
    arena = {"judge": JUDGE, "order": "both", "against": ["opponent", "models"], "baselines": "auto.json"}
    scorers = list(parse("captions", {"arena": arena}).scorers)
    assert [scorer.name for scorer in scorers] == ["arena", "caparena", "tournament"]
    assert {scorer.judges() for scorer in scorers} == {"judge"}
    assert [scorer.name for scorer in parse("captions", {"arena": {"judge": JUDGE}}).scorers] == ["arena"]


@pytest.mark.parametrize(
    ("scorers", "message"),
    [
        ({}, "none is given; name at least one of rubric, arena"),
        ({"benchmarks": [{"set": "rubicap-9"}, {"set": "rubicap-9"}]}, "benchmark_rubicap-9 is given twice"),
    ],
)
def test_scorers_are_some_and_each_is_there_once(scorers, message):
    with pytest.raises(ValidationError, match=message):
        parse("captions", scorers)
