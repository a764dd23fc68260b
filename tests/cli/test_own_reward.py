"""A recipe that names a reward function of the user's: refused at once where it cannot be called."""

import pytest


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            "nowhere_to_be_found:f",
            "reward: function nowhere_to_be_found:f: there is no module nowhere_to_be_found here",
        ),
        ("own:missing", "reward: function own:missing: the module own has no missing"),
        ("own:narrow", "reward: function own:narrow: it must take (responses, samples, **columns); "),
    ],
)
def test_function_that_cannot_be_called_is_refused_before_anything_is_drawn(
    function, message, tell, tmp_path, monkeypatch
):
    (tmp_path / "own.py").write_text("def narrow(responses): return []\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    result = tell("run", "quickstart", "--set", f"policy.reward={{type: function, function: '{function}'}}")
    assert result.code == 2
    assert result.err.splitlines()[-1].startswith(f"error: {message}")
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").glob("*/world"))


def test_name_without_a_colon_is_told_with_its_field(tell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = tell("run", "quickstart", "--set", "policy.reward={type: function, function: my_rewards}")
    assert result.code == 2
    assert result.err.startswith(
        "error: --set policy.reward={type: function, function: my_rewards}: policy.reward.function: "
    )
