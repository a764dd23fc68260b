"""Secrets in texts: what is hidden, and what is not taken for one."""

import pytest
from forked import Forked

from rubricworks.redaction import find_secret, foreign_line, is_secret_name, redact, redact_assignments

KEY = "sk-live0123456789abcdef"


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("see https://me:hunter2@host:5000/x now", "see https://***@host:5000/x now"),
        ("postgresql+psycopg://u:p@ss@db/x", "postgresql+psycopg://***@db/x"),
        (f"Bearer {KEY}.", "Bearer ***."),
        ("https://host/v1?api_key=abc&x=1", "https://host/v1?api_key=***&x=1"),
        ("https://b.s3/x?X-Amz-Signature=00ff&X-Amz-Date=1", "https://b.s3/x?X-Amz-Signature=***&X-Amz-Date=1"),
        ("AKIAIOSFODNN7EXAMPLE", "***"),
    ],
)
def test_secret_in_a_text_is_found_and_hidden(text, hidden):
    assert redact(text) == hidden
    assert find_secret(text)
    assert find_secret(hidden.replace("***@", "").replace("=***", "")) is None


@pytest.mark.parametrize(
    "text",
    [
        "http://localhost:8000/v1",
        "https://host/a@b?mail=x@y",
        "s3://bucket/user@home/x",
        "hf:org/data@main",
        "risk-averse-people-and-ask-twice-please",
        "token by token, the key: a secret",
        "max_tokens=12",
        "",
    ],
)
def test_plain_text_is_not_taken_for_a_secret(text):
    assert find_secret(text) is None
    assert redact(text) == text


@pytest.mark.parametrize(
    "name", ["OPENAI_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "db_password", "MLFLOW_TRACKING_PASSWORD", "Cookie"]
)
def test_name_of_a_secret(name):
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["TOKENIZERS_PARALLELISM", "max_tokens", "api_key_env", "AWS_SHARED_CREDENTIALS_FILE", "HF_HOME", "KEYBOARD", ""],
)
def test_name_of_no_secret(name):
    assert not is_secret_name(name)


def test_values_of_secret_names_are_hidden_and_no_others():
    text = "{API_KEY: abc, max_tokens: 12, 'HF_TOKEN': 'x y', a: http://u:p@h}"
    assert redact_assignments(text) == "{API_KEY: ***, max_tokens: 12, 'HF_TOKEN': ***, a: http://***@h}"
    assert redact_assignments("body: 'no, password=\"a b\" is old'") == "body: 'no, password=*** is old'"
    assert redact_assignments("INVALID: password=a, error: token: b") == "INVALID: password=***, error: token: ***"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("no\n\tmore  room", "no more room"),
        ("a\ud800b\0c\x1b[2K", "a?b c [2K"),
        ("password=hunter2 for http://u:p@db/x", "password=*** for http://***@db/x"),
        ("Authorization: Bearer abcDEFghijk was refused", "Authorization: Bearer *** was refused"),
        ("Body: 'Basic dXNlcjpwYTU1d29yZA== token=abc'", "Body: 'Basic *** token=***"),
        ("basic authentication is needed", "basic authentication is needed"),
        ("x" * 400 + "the cause" * 100, "x" * 199 + "…" + ("the cause" * 100)[-100:]),
        (KeyError("a"), "'a'"),
    ],
)
def test_what_another_program_says_is_one_short_line_without_secrets(text, line):
    assert foreign_line(text) == line


@pytest.mark.parametrize(
    "prefix",
    ["sk-", "sk_live_", "hf_", "rw_", "ghp_", "gho_", "github_pat_", "glpat-", "xoxa-", "xoxp-", "nvapi-", "AIza"],
)
def test_a_key_of_each_provider_is_hidden(prefix):
    assert redact(f"with {prefix}0123456789abcdef, once") == "with ***, once"
    assert redact("a -----BEGIN RSA PRIVATE KEY----- b") == "a *** b"
    assert redact("eyJhbGciOiJI.eyJzdWIiOiIx.c2ln") == "***"
    assert redact("as token-eyJhbGciOiJI.eyJzdWIiOiIx.c2ln, once") == "as ***, once"


HOSTILE = (
    *(
        "a.",
        "a-",
        "a",
        "eyJ-",
        "eyJaaaaaaaa.",
        "://a",
        "a://",
        "?a",
        "?token",
        'a="',
        "a: ",
        " ",
        "@",
        "a='b",
        "Basic a",
    ),
    "-----BEGIN A ",
)


def test_no_text_takes_more_time_than_its_length_asks_for():
    """A text of 60 kB in the path of a request held the service for half a minute."""
    program = """
import itertools
from rubricworks.redaction import find_secret, foreign_line, redact, redact_assignments
for begin, end in itertools.product(%r, ("", "://", "=", ":", "eyJ", "PRIVATE KEY")):
    for call in (redact, redact_assignments, find_secret, foreign_line):
        call((begin * 60_000)[:60_000] + end)
"""
    asked = Forked(program % (HOSTILE,))
    try:
        assert asked.wait(timeout=300) == 0
    finally:
        asked.kill()
