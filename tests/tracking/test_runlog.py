"""Names in logs as MLflow takes them."""

import pytest
from mlflow.utils.validation import _validate_metric_name

from rubricworks.tracking.runlog import metric_name

LONG = "criteria/" + "x" * 240


@pytest.mark.parametrize(
    "name",
    [
        LONG + "/mean",
        LONG + "//mean",
        "a/" * 300,
        "a/" * 124 + "a/../b",
        "x" * 249 + "/.",
        "/".join(["criterion"] * 40),
        "../..",
        "",
        "naïve (%)\n" * 60,
    ],
)
def test_a_name_of_any_length_is_one_that_mlflow_takes(name):
    cut = metric_name(name)
    _validate_metric_name(cut)
    assert 0 < len(cut) <= 250


def test_two_long_names_stay_two_and_a_short_one_stays_itself():
    assert metric_name(LONG + "/mean") != metric_name(LONG + "/most")
    assert metric_name("score/criteria/mean") == "score/criteria/mean"
