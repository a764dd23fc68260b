"""Needs of a recipe: which hosts it addresses, which variables it sends to each, which functions it calls."""

import pytest
import yaml

from rubricworks.llm import Endpoint
from rubricworks.runtime.admission import Admission, needs_of


def endpoint(url: str | list[str], key: str | None = None, **more) -> dict:
    return {"url": url, "model": "m", "api_key_env": key, **more}


@pytest.mark.parametrize(
    ("settings", "hosts"),
    [
        (endpoint("https://api.example/v1", "KEY"), {"api.example": ("KEY",)}),
        (endpoint("https://API.example:8443/v1"), {"api.example:8443": ()}),
        (endpoint("https://api.example:443/v1"), {"api.example": ()}),
        (endpoint("http://api.example:80/v1"), {"api.example": ()}),
        (endpoint("http://api.example:443/v1"), {"api.example:443": ()}),
        (endpoint("HTTPS://api.example:80/v1"), {"api.example:80": ()}),
        (endpoint("http://[fd00::7]:8000/v1"), {"[fd00::7]:8000": ()}),
        (endpoint("https://api.example:99999/v1"), {"api.example:99999": ()}),
        (endpoint(["https://a.example", "https://b.example"], "K"), {"a.example": ("K",), "b.example": ("K",)}),
        (endpoint("http://a.example:8000/v1", "K"), {"http://a.example:8000": ("K",)}),
        (endpoint("HTTP://a.example:80/${K}"), {"http://a.example": ("K",)}),
        (endpoint("http://${K}"), {"http://${K}": ("K",)}),
        (endpoint(["https://a.example", "http://a.example"], "K"), {"a.example": ("K",), "http://a.example": ("K",)}),
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
        (endpoint("http://[::1]:8000/v1"), {}),
        (endpoint("http://localhost:8000/v1", "KEY"), {"localhost:8000": ("KEY",)}),
        ({"source": "${IMAGES}/train"}, {"${IMAGES}": ()}),
        ({"student": "${HOME}/.ssh"}, {"${HOME}": ()}),
        ({"source": "${RUBRICWORKS_WORLD_DIR}/images"}, {}),
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


@pytest.mark.parametrize(
    ("settings", "places"),
    [
        ({"source": "/data/images"}, ["/data/images"]),
        ({"source": "urls:/data/list.txt"}, ["/data/list.txt"]),
        ({"sources": ["s3://bucket/rows", "~/rows"]}, ["s3://bucket/rows", "~/rows"]),
        ({"source": "parquet:org/name@0a1b2c/data/train"}, ["hf://org/name"]),
        ({"student": "Qwen/small"}, ["hf://Qwen/small"]),
        ({"source": "${IMAGES}/../../etc"}, ["${IMAGES}/../../etc"]),
        ({"source": "${IMAGES}/train"}, []),
        ({"student": "tiny"}, []),
        ({"scorers": {"benchmarks": [{"harness": "questions", "source": "/data/questions"}]}}, ["/data/questions"]),
        ({"model_name": "captioner", "prompt": "Describe the image."}, []),
    ],
)
def test_places_are_named(settings, places):
    assert list(needs_of({"stage": settings}).places) == places


def test_a_place_is_admitted_with_all_below_it_and_nothing_beside_it():
    admitted = Admission(places=("s3://bucket/rows", "/data/", "hf://Qwen"))
    below = Admission(places=("s3://bucket/rows/2026", "/data", "/data/images", "hf://Qwen/small"))
    assert admitted.lacking(below).is_empty
    beside = Admission(
        places=("s3://bucket", "s3://bucket/rows-private", "/data/../etc", "/data/%2e%2e", "hf://Qwen2/x")
    )
    assert admitted.lacking(beside) == beside


def test_tasks_of_lmms_eval_are_code_that_is_admitted_by_its_folder_alone():
    needs = needs_of({"score": {"scorers": {"benchmarks": [{"set": "rlr3-15", "source": "/data/tasks"}]}}})
    assert needs == Admission(task_folders=("/data/tasks",))
    for admitted in (Admission(places=("/data", "/data/tasks")), Admission(task_folders=("/data",))):
        assert admitted.lacking(needs) == needs
    assert Admission(task_folders=("/data/tasks",)).lacking(needs).is_empty


@pytest.mark.parametrize(
    ("admitted", "url", "is_admitted"),
    [
        ("api.example", "https://api.example/v1", True),
        ("api.example", "http://api.example:80/v1", True),
        ("api.example", "https://api.example:8443/v1", False),
        ("api.example:8443", "https://api.example:8443/v1", True),
        ("api.example:8443", "https://api.example/v1", False),
        ("api.example:8443", "https://api.example:8444/v1", False),
    ],
)
def test_a_host_is_admitted_at_its_own_port_and_without_one_at_that_of_the_scheme(admitted, url, is_admitted):
    lacking = Admission(hosts={admitted: ()}).lacking(needs_of({"judge": endpoint(url)}))
    assert lacking.is_empty == is_admitted


@pytest.mark.parametrize(
    ("admitted", "url", "key", "is_admitted"),
    [
        ("api.example", "https://api.example/v1", "KEY", True),
        ("api.example", "http://api.example/v1", "KEY", False),
        ("api.example", "http://api.example/${KEY}", None, False),
        ("api.example", "http://api.example/v1", None, True),
        ("api.example:8000", "http://api.example:8000/v1", "KEY", False),
        ("http://api.example:8000", "http://api.example:8000/v1", "KEY", True),
        ("http://api.example:80", "http://api.example/v1", "KEY", True),
        ("http://api.example", "http://api.example/v1", None, True),
        ("http://api.example", "https://api.example/v1", "KEY", False),
        ("http://api.example", "http://other.example/v1", "KEY", False),
        ("localhost:8000", "http://localhost:8000/v1", "KEY", True),
    ],
)
def test_a_variable_is_sent_by_http_only_where_the_entry_names_it(admitted, url, key, is_admitted):
    lacking = Admission(hosts={admitted: ("KEY",)}).lacking(needs_of({"judge": endpoint(url, key)}, of_stranger=True))
    assert lacking.is_empty == is_admitted


@pytest.mark.parametrize("host", ["https://api.example", "http://api.example/v1"])
def test_an_entry_that_admits_no_host_is_refused(host):
    with pytest.raises(ValueError, match="write a host and its port"):
        Admission(hosts={host: ()})


def test_what_is_lacking_can_be_pasted_and_is_then_admitted():
    needs = needs_of(
        {
            "a": endpoint("https://api.example", "KEY"),
            "b": endpoint("${URL}/x", "OTHER"),
            "c": {"function": "m.n:f"},
            "d": {"source": '/data/"odd": name', "student": "Qwen/small"},
            "benchmarks": [{"source": "/data/tasks"}],
        }
    )
    assert all(needs.model_dump().values())
    admitted = Admission(hosts={"api.example": ("ANOTHER",)})
    lacking = admitted.lacking(needs)
    assert lacking == needs
    pasted = Admission.model_validate(yaml.safe_load(lacking.as_yaml()))
    assert pasted.lacking(needs).is_empty


def test_a_variable_is_admitted_for_its_host_alone():
    admitted = Admission(hosts={"api.example": ("KEY",), "evil.example": ()})
    needs = needs_of({"a": endpoint("https://evil.example", "KEY"), "b": endpoint("https://api.example", "KEY")})
    assert admitted.lacking(needs).hosts == {"evil.example": ("KEY",)}


def test_variable_below_an_admitted_folder_is_not_admitted():
    admitted = Admission(places=("/data", "/sets/${SET}"))
    assert admitted.admits_place("/data/images")
    assert not admitted.admits_place("/data/${SET}")
    assert admitted.admits_place("/sets/${SET}/images")
    assert not admitted.admits_place("/sets/${SET}/${OTHER}")


def test_served_model_reaches_the_place_of_its_weights_and_no_host():
    served = {"name": "judge", "model": "org/judge@" + "0" * 40}
    endpoint = Endpoint.model_validate({"serve": served}).model_dump(mode="json")
    needs = needs_of({"stage": {"judge": endpoint}}, of_stranger=True)
    assert (needs.hosts, needs.places) == ({}, ("hf://org/judge",))
