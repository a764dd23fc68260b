"""Schemathesis over the whole description of the API: no crash, and no answer that it does not describe."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import schemathesis_hooks
from served_api import ask, served, wait_for, wait_for_rollouts
from trained_run import STAGE, finish_tables, write_rubrics, write_run

from rubricworks.platform_api.settings import ApiSettings

pytestmark = pytest.mark.slow

CONFIG = f"""
hooks = "{schemathesis_hooks.__file__}"

[checks.negative_data_rejection]  # its own list lacks 413, which is what a body beyond the limit gets
expected-statuses = [400, 401, 403, 404, 406, 413, 422, 428, 503]

[checks.positive_data_acceptance]
expected-statuses = ["2xx", 401, 403, 404, 409, 413, 503]

[parameters]  # what is there, so that not all is 404
"path.run" = "today-1"
"path.stage" = "{STAGE}"
"path.sample_id" = "a"
"path.step" = 1

[[operations]]
include-path-regex = "/rubrics/"
parameters = {{ "path.stage" = "synthesize_rubrics" }}

# No schema describes a recipe, a version of the registry, rows of a CSV, labels to compare, a weight that is not 0, or
# two judges that are not the same, conditions on figures, or which recipes have a limit of tokens.
[[operations]]
include-path-regex = "^/api/v1/(submissions|promotions)$|/csv$|/agreement$|/versions$|/judge-preferences"
checks.positive_data_acceptance.enabled = false

[[operations]]
include-path-regex = "^/api/v1/(runs|comparison)$|/rollouts$"
checks.positive_data_acceptance.enabled = false

[[operations]]  # a rubric takes 0 and 1 for false and true
include-path-regex = "/versions$"
checks.negative_data_rejection.enabled = false
"""


def test_every_operation_answers_as_described_whatever_it_is_sent(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    write_rubrics(run)
    finish_tables(run)
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    program = str(Path(sys.executable).with_name("schemathesis"))
    command = [program, "run", "--max-examples", "2", "--seed", "1"]
    with served(ApiSettings(storage=str(tmp_path), index_seconds=0.05)) as url:
        wait_for_rollouts(url)
        wait_for(lambda: ask(f"{url}/api/v1/rubric-sets")[1]["items"])
        done = subprocess.run(
            [*command, f"{url}/openapi.json"], capture_output=True, text=True, cwd=tmp_path, check=False
        )
        described = sum(map(len, ask(f"{url}/openapi.json")[1]["paths"].values()))
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr
    assert re.search(rf"Tested: {described}\b", done.stdout), "streams of events, too"
