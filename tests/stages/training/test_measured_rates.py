"""Rates of a judge from a file of `rubricworks agreement --json`, and judges that they were not measured on."""

import hashlib
import json
from pathlib import Path

import pytest
from rated import card, write_labels, write_parquet

from rubricworks.errors import UserError
from rubricworks.llm import Endpoint
from rubricworks.llm.identity import Identity, IdentityPin
from rubricworks.policy.rewards.measured_rates import MeasuredRates, read_measurement
from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.rubrics import Criterion, Rubric
from rubricworks.runtime.job import open_job
from rubricworks.runtime.stage_table import STAGES
from rubricworks.storage import open_bucket

JUDGE = Endpoint(url="http://gpu/v1", model="small", revision="r1")


@pytest.fixture
def measured(tell, tmp_path):
    """Measures the judge: of 20 items that are not met it credits 3, of 20 that are met it misses 4."""

    def run(*, prompt="judge-2", labels=range(40), rubrics=True, pinned=True):
        if pinned:
            pin = IdentityPin(JUDGE, "judge", tmp_path)
            pin.note_prompt(prompt)
            pin.check(Identity("small-7b", "fp"))
        judged = [n < 3 for n in range(20)] + [n >= 4 for n in range(20)]
        cards = [card(f"s{n}", {"red": float(met)}, judge="small") for n, met in enumerate(judged)]
        table = write_parquet(tmp_path / "t.parquet", cards)
        rows = [(f"s{n}", "red", int(n >= 20)) for n in labels]
        options = []
        if rubrics:
            rubric = Rubric(criteria=(Criterion(criterion="red", weight=3),)).model_dump(mode="json")
            lines = [json.dumps({"sample_id": f"s{n}", "rubric": rubric}) for n in range(40)]
            (tmp_path / "rubrics.jsonl").write_text("\n".join(lines))
            options = ["--rubrics", "rubrics.jsonl"]
        result = tell("agreement", write_labels(tmp_path / "l.csv", rows), table, *options, "--json", "a.json")
        assert result.code == 0, result
        return MeasuredRates(agreement=str(tmp_path / "a.json"))

    return run


def test_rates_and_identity_are_those_of_the_file(measured):
    item = measured()
    measurement = read_measurement(item, [JUDGE], "judge-2")
    assert (measurement.rates.false_positive, measurement.rates.false_negative) == pytest.approx((0.15, 0.2))
    assert measurement.identities == (Identity("small-7b", "fp"),)
    by_weight = read_measurement(item.model_copy(update={"by_weight": True}), [JUDGE], "judge-2", weights={3.0})
    assert by_weight.rates == {3.0: measurement.rates}
    assert len(item.digest()) == 64


@pytest.mark.parametrize(
    ("judge", "prompt", "message"),
    [
        (
            JUDGE.model_copy(update={"model": "other"}),
            "judge-2",
            "measured small, and the judge that grades is other; measure that one",
        ),
        (JUDGE.model_copy(update={"revision": ""}), "judge-2", r"of revision r1, and the recipe's judge has \(none\)"),
        (JUDGE, "judge-3", "measured small asked by judge-2, and it is asked by judge-3 now; measure it anew"),
    ],
)
def test_rates_of_another_judge_are_refused(measured, judge, prompt, message):
    with pytest.raises(UserError, match=rf"noise_correction\.agreement: \S*a\.json .*{message}"):
        read_measurement(measured(), [judge], prompt)


@pytest.mark.parametrize(
    ("made", "options", "weights", "message"),
    [
        ({"pinned": False}, {}, (), "tells no identity of small; measure it on scorecards that lie in"),
        ({"labels": range(20)}, {}, (), "has no label of all criteria that is met, so a rate is not known"),
        ({"labels": [0, 1, 2, 20, 21, 22, 23]}, {}, (), "false positives of 100% and false negatives of 100%"),
        ({"rubrics": False}, {"by_weight": True}, (), "has no rates by weight; name the rubrics to agreement"),
        ({}, {"by_weight": True}, (3.0, -1.0), "has no rates for weight -1"),
    ],
)
def test_a_file_that_does_not_tell_the_rates_is_refused(measured, made, options, weights, message):
    item = measured(**made).model_copy(update=options)
    with pytest.raises(UserError, match=message):
        read_measurement(item, [JUDGE], "judge-2", weights=weights)


def test_what_is_no_such_file_is_said(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        read_measurement(MeasuredRates(agreement=str(tmp_path / "none.json")), [JUDGE], "judge-2")
    (tmp_path / "x.json").write_text('{"raters": 3}')
    with pytest.raises(UserError, match=r"x\.json is no file of rubricworks agreement --json: raters"):
        read_measurement(MeasuredRates(agreement=str(tmp_path / "x.json")), [JUDGE], "judge-2")


def test_a_file_in_a_bucket_is_fetched_once_whatever_happens_to_it(measured, run, bucket, line):
    content, store = Path(measured().agreement).read_bytes(), open_bucket(f"{bucket}/judges")
    store.write("a.json", content)
    rates = MeasuredRates(agreement=f"{bucket}/judges/a.json")
    line.requests.clear()
    digest = rates.digest()
    store.write("a.json", b"{}")
    assert digest == rates.digest() == hashlib.sha256(content).hexdigest()
    assert read_measurement(rates, [JUDGE], "judge-2").rates.false_positive == pytest.approx(0.15)
    fetched = [
        request
        for request in line.requests
        if request.method == "GET" and request.path.partition("?")[0].endswith("a.json")
    ]
    assert len(fetched) == 1
    assert MeasuredRates(agreement=rates.agreement).digest() == hashlib.sha256(b"{}").hexdigest()
    store.delete("a.json")
    with pytest.raises(UserError, match=r"judges/a\.json: there is nothing here; name a file or a folder"):
        MeasuredRates(agreement=rates.agreement).digest()


def test_a_training_by_rates_that_changed_meanwhile_starts_over(run, bucket, tmp_path):
    store, file = open_bucket(f"{bucket}/judges"), f"{bucket}/judges/a.json"
    recipe = load_recipe(recipe_path("quickstart"), [f"policy.reward.noise_correction={{agreement: '{file}'}}"])

    def opened():
        config = STAGES["train_policy"].parse_config(recipe.stage_json()["train_policy"])
        return open_job("train_policy", config, tmp_path / "run", {})

    store.write("a.json", b"1")
    begun = opened()
    (begun.out / "checkpoint").write_text("by the first rates")
    assert (opened().out / "checkpoint").exists()
    store.write("a.json", b"2")
    again = opened()
    assert again.made_by["versions"]["noise_rates"] == hashlib.sha256(b"2").hexdigest()
    assert not (again.out / "checkpoint").exists()
    (aside,) = (tmp_path / "run" / "replaced").iterdir()
    assert (aside / "checkpoint").exists()
