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
        ("https://a.blob.core.windows.net/x?sv=1&sig=ab%2Fcd", "https://a.blob.core.windows.net/x?sv=1&sig=***"),
    ],
)
def test_secret_in_a_text_is_found_and_hidden(text, hidden):
    assert redact(text) == hidden
    assert find_secret(text)
    assert find_secret(hidden.replace("***@", "").replace("=***", "")) is None


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("Authorization: Basic dXNlcjpwYXNz was sent", "Authorization: Basic *** was sent"),
        ("Authorization: Bearer 0123456789abcdef0 was sent", "Authorization: Bearer *** was sent"),
        ("with api_key=abc, once", "with api_key=***, once"),
        ("OPENAI_API_KEY='abc' python", "OPENAI_API_KEY='***' python"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPx", "aws_secret_access_key = ***"),
        ('{"password": "hunter2", "user": "me"}', '{"password": "***", "user": "me"}'),
        (r"{\"password\": \"hunter2\"}", r"{\"password\": \"***\"}"),
        ("{'client_secret': 'a b'}", "{'client_secret': '***'}"),
        ("AccountName=me;AccountKey=ab12/+==;EndpointSuffix=x", "AccountName=me;AccountKey=***;EndpointSuffix=x"),
        ("aws_secret_access_key: wJalrXUtnFEMI7", "aws_secret_access_key: ***"),
        ("token=0123456789abcdef at once", "token=*** at once"),
        ("sig=aBcD1234aBcD1234%3D", "sig=***"),
        ("a -----BEGIN PRIVATE KEY-----\nMIIE+/=\n-----END PRIVATE KEY----- b", "a *** b"),
    ],
)
def test_an_assigned_secret_is_hidden_in_any_text(text, hidden):
    assert redact(text) == hidden
    assert redact(hidden) == hidden


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
        "A sign reads PASSWORD: GUEST above the key: a brass one, with basic JavaScript courses by a standard bearer.",
        '{"eos_token": "<|im_end|>", "pad_token_id": 151643, "sort_key": "name", "api_key": null}',
        "loading sk-learn-based-models with hf_hub_download_cache, npm_config_registry and pplx-large-online",
        "step 120: loss=0.41 tokens=8192 token=17 lr=1e-06 key=value seed=20261128",
        "SG.Wannsee plays at dapifer, ya29.txt, r8_large, xai-grok-vision, design=12, secret: none",
        "api_key=${OPENAI_API_KEY} api_key_env: OPENAI_API_KEY",
        "cluster.env.OPENAI_API_KEY: a secret stands here; write secrets: {NAME: {API_KEY: VARIABLE}}",
        "Basic iPhone12Pro settings; the bearer of the ring",
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
    [
        *("sk-", "sk_live_", "hf_", "rw_", "ghp_", "gho_", "github_pat_", "glpat-", "xoxa-", "xoxp-", "nvapi-", "AIza"),
        *("gsk_", "xai-", "r8_", "pplx-", "dapi", "ya29.", "npm_", "SG."),
    ],
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
        "sk-",
        "key='b",
        'secret="',
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
