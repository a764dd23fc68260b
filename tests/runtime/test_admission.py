"""Needs of a recipe: which hosts it addresses, which variables it sends to each, which functions it calls."""

import pytest
import yaml

from rubricworks.runtime.admission import Admission, needs_of


def endpoint(url: str, key: str | None = None, **more) -> dict:
    return {"url": url, "model": "m", "api_key_env": key, **more}


@pytest.mark.parametrize(
    ("settings", "hosts"),
    [
        (endpoint("https://api.example/v1", "KEY"), {"api.example": ("KEY",)}),
        (endpoint("https://API.example:8443/v1"), {"api.example": ()}),
        (endpoint("http://a.example", "K", replicas=["http://b.example"]), {"a.example": ("K",), "b.example": ("K",)}),
        (endpoint("https://evil.example/${S3_SECRET}"), {"evil.example": ("S3_SECRET",)}),
        (endpoint("https://${S3_SECRET}.evil.example"), {"${S3_SECRET}.evil.example": ("S3_SECRET",)}),
        (endpoint("https://evil.example/?k=${A}&l=${B}", "C"), {"evil.example": ("A", "B", "C")}),
        (endpoint(" https://evil.example/${A}"), {"evil.example": ("A",)}),
        (endpoint("HTTPS://evil.example/${A}"), {"evil.example": ("A",)}),
        (endpoint("https://ok.example@evil.example/v1", "KEY"), {"evil.example": ("KEY",)}),
        (endpoint("${JUDGE_URL}"), {}),
        (endpoint("${JUDGE_URL}/v1", "KEY"), {"${JUDGE_URL}": ("KEY",)}),
        (endpoint("${JUDGE_URL}/${S3_SECRET}"), {"${JUDGE_URL}": ("S3_SECRET",)}),
        (endpoint("http://127.0.0.1:8000/v1"), {}),
        (endpoint("http://localhost:8000/v1", "KEY"), {"localhost": ("KEY",)}),
        ({"source": "${IMAGES}/train"}, {}),
        ({"source": "/data/${SET}"}, {}),
        ({"source": "https://images.example/${S3_SECRET}/list.json"}, {"images.example": ("S3_SECRET",)}),
        ({"source": "hf:org/${S3_SECRET}"}, {"hf:org/": ("S3_SECRET",)}),
        ({"scorers": {"oracle": {"url": "https://o.example/score/${A}"}}}, {"o.example": ("A",)}),
        ({"deep": [{"list": [endpoint("https://x.example", "K")]}]}, {"x.example": ("K",)}),
        ({"prompt": "Describe http links: a $5 {note}"}, {}),
    ],
)  # fmt: skip
def test_each_host_is_named_with_what_it_would_get(settings, hosts):
    assert needs_of({"stage": settings}).hosts == hosts


def test_functions_are_named():
    settings = {"score": {"scorers": {"functions": [{"name": "mine", "function": "os:system"}]}}}
    assert needs_of(settings) == Admission(functions=("os:system",))


def test_what_is_lacking_can_be_pasted_and_is_then_admitted():
    needs = needs_of(
        {"a": endpoint("https://api.example", "KEY"), "b": endpoint("${URL}/x", "OTHER"), "c": {"function": "m.n:f"}}
    )
    admitted = Admission(hosts={"api.example": ("ANOTHER",)})
    lacking = admitted.lacking(needs)
    assert lacking == needs
    pasted = Admission.model_validate(yaml.safe_load(lacking.as_yaml()))
    assert pasted.lacking(needs).is_empty


def test_a_variable_is_admitted_for_its_host_alone():
    admitted = Admission(hosts={"api.example": ("KEY",), "evil.example": ()})
    needs = needs_of({"a": endpoint("https://evil.example", "KEY"), "b": endpoint("https://api.example", "KEY")})
    assert admitted.lacking(needs).hosts == {"evil.example": ("KEY",)}
