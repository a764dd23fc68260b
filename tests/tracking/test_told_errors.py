"""Errors of MLflow as users are told of them."""

import pytest
from mlflow.exceptions import MlflowException, RestException

from rubricworks.errors import UserError
from rubricworks.tracking.connection import MlflowAway, report_mlflow_errors


@pytest.mark.parametrize(
    ("error", "told", "line"),
    [
        (
            RestException({"error_code": "INVALID_PARAMETER_VALUE", "message": "password=hunter2 \ud800"}),
            UserError,
            "MLflow at http://***@host: INVALID_PARAMETER_VALUE: password=*** ?",
        ),
        (
            MlflowException("API request failed. Response body: '<b>Bearer abcDEF0123456'"),
            MlflowAway,
            "MLflow at http://***@host: API request failed. Response body: '<b>Bearer ***'; test it with:",
        ),
    ],
)
def test_what_mlflow_says_is_told_in_one_line_without_secrets(error, told, line):
    with pytest.raises(told) as raised, report_mlflow_errors("http://me:pa55word@host"):
        raise error
    assert str(raised.value).startswith(line)
    assert "pa55word" not in str(raised.value)
