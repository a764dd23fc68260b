"""Measurement of a registration: what is stored, resumed, refused and said, with runs that train nothing."""

import pytest

from rubricworks.claims.inference import judge_claims
from rubricworks.claims.measure import PlannedRun, cost_of, measure, missing_runs
from rubricworks.claims.registration import Blinded, Claim, Registration
from rubricworks.claims.run_results import ResultFolder, RunResult, scores_by_seed
from rubricworks.errors import UserError

CLAIM = Claim(id="better", source="Table 1", says="Better", arms=("full", "base"), metric="f1")
REGISTRATION = Registration(paper="P", recipe="r", seeds=3, margin=0.03, claims=(CLAIM,))


def digest(run):
    return f"settings of {run}"


def result(planned, value=0.5, seconds=10.0, registration=REGISTRATION):
    arms = {"own": ("own", "base"), "full": ("full",)}[planned.run]
    return RunResult(
        registration=registration.digest,
        settings=digest(planned.run),
        version="1",
        run=planned.run,
        seed=planned.seed,
        arms={arm: {"f1": {"a": value if arm == "full" else 0.0}} for arm in arms},
        cpu_seconds=seconds,
    )


class Crash(Exception):
    pass


@pytest.fixture
def call(tmp_path):
    """Measures the registration with a function in the place of a run; returns the runs made and the lines said."""

    def run(execute, seeds=None, registration=REGISTRATION):
        made, lines, done = [], [], []

        def record(planned, on_stage):
            made.append(planned)
            on_stage("train")
            return execute(planned)

        run.lines, run.done = lines, done
        measure(
            registration,
            ResultFolder(tmp_path, registration),
            seeds,
            digest=digest,
            execute=record,
            say=lines.append,
            seed_is_done=done.append,
        )
        return made

    return run


def test_runs_are_made_seed_by_seed_and_never_twice(call, tmp_path):
    made = call(result)
    assert made == [PlannedRun(run, seed) for seed in (1, 2, 3) for run in ("own", "full")]
    assert call.done == [1, 2, 3]
    assert call(result) == []


def test_interrupted_measurement_goes_on_where_it_stopped(call):
    def interrupt(planned):
        if planned == ("full", 2):
            raise KeyboardInterrupt
        return result(planned)

    with pytest.raises(KeyboardInterrupt):
        call(interrupt)
    assert call(result) == [("full", 2), ("own", 3), ("full", 3)]


@pytest.mark.parametrize(
    ("error", "reason"), [(UserError("no room on /"), "no room on /"), (Crash("nan"), "Crash: nan")]
)
def test_failed_run_leaves_the_others_their_results_and_its_claims_incomplete(call, tmp_path, error, reason):
    def fail(planned):
        if planned == ("full", 1):
            raise error
        return result(planned)

    with pytest.raises(UserError, match=f"1 run failed, first seed 1, full: {reason}; mend it"):
        call(fail)
    scores = scores_by_seed(ResultFolder(tmp_path, REGISTRATION).results())
    [finding] = judge_claims(REGISTRATION, scores, range(1, 4))
    assert (finding.verdict, finding.reason) == ("incomplete", "seed 1: full has no f1")
    assert call(result) == [("full", 1)]


def test_blinded_registration_runs_as_many_seeds_as_the_first_ones_spread_asks_for(call):
    blinded = REGISTRATION.model_copy(update={"seeds": 4, "blinded": Blinded(pilot=2, at=4, most=9)})

    def spread(planned):
        return result(planned, 0.1 * (planned.seed % 2), registration=blinded)

    assert {planned.seed for planned in call(spread, registration=blinded)} == set(range(1, 10))


def test_progress_says_the_seed_the_run_the_stage_and_what_is_left(call):
    call(result, seeds=1)
    assert call.lines[0] == "seed 1, own (2 runs to go): train"
    assert call.lines[1] == "seed 1, own (2 runs to go): done in 10 CPU-seconds"
    assert call.lines[2].startswith("seed 1, full (1 run to go, ")
    assert " left): train" in call.lines[2]


def test_cost_is_that_of_measured_runs_of_the_same_name():
    waiting = [PlannedRun("own", 2), PlannedRun("full", 2)]
    measured = [result(PlannedRun("own", 1), seconds=200.0)]
    known = REGISTRATION.model_copy(update={"cpu_seconds": {"own": 9.0, "full": 40.0}})
    assert cost_of(known, waiting, measured) == (240.0, 2)
    assert cost_of(REGISTRATION, waiting, measured) == (300.0, 1)


def test_results_of_another_registration_or_settings_are_refused_with_what_to_do(tmp_path):
    results = ResultFolder(tmp_path, REGISTRATION)
    results.save(result(PlannedRun("own", 1)))
    other = ResultFolder(tmp_path, REGISTRATION.model_copy(update={"margin": 0.01}))
    with pytest.raises(UserError, match=r"seed-1/own.json: measured under the registration \w+, .*--results"):
        other.results()
    with pytest.raises(UserError, match=r"own.json: measured with other settings .*--results"):
        missing_runs(REGISTRATION, results, [1], lambda run: "changed")
    (tmp_path / "seed-1" / "own.json").write_text('{"run": ')
    with pytest.raises(UserError, match=r"own.json: damaged; delete it"):
        results.results()
