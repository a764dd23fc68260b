"""Secrets in texts: what is hidden, and what is not taken for one."""

import pytest

from rubricworks.redaction import find_secret, is_secret_name, redact, redact_assignments

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


@pytest.mark.parametrize(
    "prefix",
    ["sk-", "sk_live_", "hf_", "rw_", "ghp_", "gho_", "github_pat_", "glpat-", "xoxa-", "xoxp-", "nvapi-", "AIza"],
)
def test_a_key_of_each_provider_is_hidden(prefix):
    assert redact(f"with {prefix}0123456789abcdef, once") == "with ***, once"
    assert redact("a -----BEGIN RSA PRIVATE KEY----- b") == "a *** b"
    assert redact("eyJhbGciOiJI.eyJzdWIiOiIx.c2ln") == "***"
