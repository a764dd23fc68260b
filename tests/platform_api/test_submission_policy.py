"""Submitted recipes reach what an admin admitted, and nothing else."""

import pytest
import yaml

from rubricworks.errors import UserError
from rubricworks.platform_api.services.submission.submission_policy import SubmissionPolicy, load_policy
from rubricworks.recipe.files import built_in_recipes, load_recipe, recipe_path
from rubricworks.recipe.mistakes import RecipeError

ADMITTED = SubmissionPolicy(
    hosts={"api.example.org": ("KEY_OF_API",), "${JUDGE_URL}": (), "images.example.org": ()},
    functions=("rewards:brevity",),
    places=("s3://datasets/photographs", "/data/images"),
)


def reached(*overrides, policy=ADMITTED):
    """Fields of quickstart that the policy refuses, with these changes."""
    return [violation.field for violation in policy.violations(load_recipe(recipe_path("quickstart"), overrides))]


def judge(url, key="null"):
    return f'policy.reward.judge={{url: "{url}", model: judge, api_key_env: {key}}}'


@pytest.mark.parametrize(
    ("url", "key"),
    [("https://api.example.org/v1", "KEY_OF_API"), ("https://api.example.org", "null"), ("${JUDGE_URL}/v1", "null")],
)
def test_admitted_servers_and_keys_are_reached(url, key):
    assert reached(judge(url, key)) == []


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("https://elsewhere.example/v1", "null"),
        ("https://api.example.org/v1", "AWS_SECRET_ACCESS_KEY"),
        ("https://api.example.org/${AWS_SECRET_ACCESS_KEY}", "null"),
        ("https://api.example.org.evil.example/v1", "null"),
        ("https://evil.example\\\\.api.example.org/v1", "null"),
        ("https://api.example.org:8443/v1", "null"),
        ("http://api.example.org/v1", "KEY_OF_API"),
        ("http://127.0.0.1:8080/api/v1", "null"),
        ("http://169.254.169.254/latest/meta-data", "null"),
        ("${JUDGE_URL}.evil.example/v1", "null"),
        ("${JUDGE_URL}/v1", "KEY_OF_API"),
        ("${HOME}/v1", "null"),
        ("${RUBRICWORKS_WORLD_URL}", "KEY_OF_API"),
    ],
)
def test_other_servers_and_keys_are_refused_beside_the_field(url, key):
    assert "policy.reward.judge.url" in " ".join(reached(judge(url, key)))


@pytest.mark.parametrize("begin", ["https://evil.example\\\\@api.example.org", "${JUDGE_URL}@evil.example"])
def test_an_address_with_a_user_is_no_recipes(begin):
    with pytest.raises(RecipeError, match="holds a user or password"):
        reached(judge(f"{begin}/v1"))


@pytest.mark.parametrize("source", ["s3://datasets/photographs/2026", "/data/images", "urls:/data/images/list.txt"])
def test_admitted_places_are_read(source):
    assert reached(f"data.source={source}") == []


@pytest.mark.parametrize(
    "source",
    [
        *("s3://datasets/photographs-private", "s3://datasets", "/etc", "~/.ssh", "../other", "x/../../other"),
        *("file:///etc", "/data/images/../../etc", "/data/images/%2e%2e", "urls:/etc/passwd", "s3://datasets\\x"),
        *("FILE:///etc", "sqlite:////etc/x"),
    ],
)
def test_other_places_are_refused(source):
    assert reached(f"data.source='{source}'") == ["data.source"]


def test_functions_hosts_of_images_arms_and_clusters_are_checked():
    assert reached("data.allowed_hosts=[images.example.org]") == []
    assert reached("data.allowed_hosts=[evil.example]") == ["data.allowed_hosts"]
    arm = {"bad": {"policy.reward.judge.url": "https://evil.example/v1"}}
    assert reached(f"arms={yaml.safe_dump(arm, default_flow_style=True)}") == ["arms.bad.policy.reward.judge.url"]
    assert reached('tracking.uri="https://evil.example"') == ["tracking.uri"]
    assert reached("world=null", 'cluster={storage: "s3://mine/runs", images: {cpu: evil}}')[-1] == "cluster"


@pytest.mark.parametrize("name", [path.stem for path in built_in_recipes() if "\nworld:" in path.read_text()])
def test_recipes_in_the_scene_world_need_no_admission(name):
    assert SubmissionPolicy().violations(load_recipe(recipe_path(name))) == []


@pytest.mark.parametrize(
    ("override", "field"),
    [
        ("new_samples.admit={hosts: {evil.example: [KEY]}}", "new_samples.admit"),
        ("new_samples.admit={hosts: {api.example.org: [AWS_SECRET_ACCESS_KEY]}}", "new_samples.admit"),
        ('new_samples.admit={functions: ["m:f"]}', "new_samples.admit"),
        ("new_samples.admit={places: [/data]}", "new_samples.admit"),
        ("new_samples.admit={task_folders: [/data/images]}", "new_samples.admit"),
        (
            'new_samples.changes={train_policy.reward.function: "m:f"}',
            "new_samples.changes.train_policy.reward.function",
        ),
        (
            'new_samples.changes={train_policy.reward: {function: "m:f"}}',
            "new_samples.changes.train_policy.reward.function",
        ),
        ("new_samples.changes={prepare.source: org/name}", "new_samples.changes.prepare.source"),
        (
            'new_samples.changes={train_policy.reward.judge.url: "https://api.example.org"}',
            "new_samples.changes.train_policy.reward.judge.url",
        ),
        (
            "new_samples.changes={train_policy.algorithm.rollouts.vllm.mode: server}",
            "new_samples.changes.train_policy.algorithm.rollouts.vllm.mode",
        ),
    ],
)
def test_a_retraining_admits_and_changes_no_more_than_it_may_reach_itself(override, field):
    recipe = load_recipe(recipe_path("retrain-laptop"), [override])
    assert field in [violation.field for violation in ADMITTED.violations(recipe)]


@pytest.mark.parametrize(
    "override",
    [
        "new_samples.admit={hosts: {api.example.org: [KEY_OF_API]}, functions: ['rewards:brevity']}",
        "new_samples.admit={places: [s3://datasets/photographs/2026, /data/images]}",
        "new_samples.changes={train_policy.algorithm.steps: 3, train_policy.reward.function: 'rewards:brevity'}",
        "new_samples.changes={train_policy.reward.judge: "
        "{url: 'https://api.example.org', model: m, api_key_env: KEY_OF_API}}",
        "new_samples.changes={prepare.source: s3://datasets/photographs/2026}",
    ],
)
def test_a_retraining_may_admit_and_change_what_is_admitted(override):
    assert ADMITTED.violations(load_recipe(recipe_path("retrain-laptop"), [override])) == []


def test_a_key_that_an_arm_sends_to_an_admitted_server_is_refused():
    dotted = {
        "policy.reward.judge.url": "https://api.example.org",
        "policy.reward.judge.api_key_env": "AWS_SECRET_ACCESS_KEY",
    }
    assert reached(f"arms={yaml.safe_dump({'a': dotted}, default_flow_style=True)}") != []
    dotted["policy.reward.judge.api_key_env"] = "KEY_OF_API"
    assert reached(f"arms={yaml.safe_dump({'a': dotted}, default_flow_style=True)}") == []


def test_a_default_address_is_reached_too():
    assert reached("policy.algorithm.rollouts.vllm={mode: server}") == ["policy.algorithm.rollouts.vllm.url"]
    assert reached("policy.algorithm.rollouts.vllm={mode: colocate}") == []
    for host, refused in (("127.0.0.1:8000", []), ("127.0.0.1", ["policy.algorithm.rollouts.vllm.url"])):
        assert (
            reached("policy.algorithm.rollouts.vllm={mode: server}", policy=SubmissionPolicy(hosts={host: ()}))
            == refused
        )


def test_tasks_of_lmms_eval_are_admitted_as_code_and_not_as_a_place():
    def tasks(source, harness="lmms-eval"):
        return f"evaluation.scorers.benchmarks=[{{set: rlr3-15, harness: {harness}, source: {source}}}]"

    field = ["evaluation.scorers.benchmarks.0.source"]
    assert reached(tasks("/data/images/tasks")) == field
    assert reached(tasks("/data/images/tasks", "questions")) == []
    policy = ADMITTED.model_copy(update={"task_folders": ("/opt/tasks",)})
    assert reached(tasks("/opt/tasks"), policy=policy) == []
    assert reached(tasks("/opt/tasks/mine"), policy=policy) == field
    assert reached(tasks("/opt/tasks", "questions"), policy=policy) == field
    arm = {"a": {"evaluation.scorers": {"benchmarks": [{"set": "rlr3-15", "source": "/data/images/tasks"}]}}}
    assert reached(f"arms={yaml.safe_dump(arm, default_flow_style=True)}") != []


def test_names_on_the_hub_are_admitted_by_repository_or_organisation():
    assert reached("warm_up.student=gpt2") == reached("warm_up.student=Qwen/small") == ["warm_up.student"]
    commit = "0" * 40
    assert reached(f"data.source=Qwen/images@{commit}") == ["data.source"]
    of_qwen = SubmissionPolicy(places=("hf://Qwen", "hf://other/one", "/models"))
    for admitted in ("Qwen/small", "Qwen/large", "other/one", "/models/mine", "tiny"):
        assert reached(f"warm_up.student={admitted}", policy=of_qwen) == []
    assert reached(f"data.source=parquet:Qwen/images@{commit}/data/train", policy=of_qwen) == []
    for other in ("other/two", "Qwen2/small", "qwen", "Qwen/../evil/x", "Qwen\\\\x"):
        assert reached(f'warm_up.student="{other}"', policy=of_qwen) == ["warm_up.student"], other
    (problem,) = ADMITTED.violations(load_recipe(recipe_path("quickstart"), ["warm_up.student=org/name@main"]))
    assert "add hf://org/name, or its organisation, to places of RUBRICWORKS_SUBMISSIONS" in problem.text


def test_a_run_gets_no_secret_but_those_that_are_admitted():
    whole = {
        "PATH": "/bin",
        "KEY_OF_API": "k",
        "JUDGE_URL": "http://judge",
        "AWS_SECRET_ACCESS_KEY": "s",
        "RUBRICWORKS_API_TOKEN": "t",
        "RUBRICWORKS_DATABASE_URL": "postgresql://u:p@h/d",
        "MLFLOW_TRACKING_URI": "http://mlflow",
    }
    assert set(ADMITTED.environment(whole)) == {"PATH", "KEY_OF_API", "JUDGE_URL", "MLFLOW_TRACKING_URI"}


@pytest.mark.parametrize("text", ["hosts: [1]", "host: {}", "a: &a [*a]", "!!python/object/apply:os.system [id]"])
def test_a_policy_with_mistakes_is_one_line(tmp_path, text):
    (tmp_path / "policy.yaml").write_text(text)
    with pytest.raises(UserError, match=r"RUBRICWORKS_SUBMISSIONS: .*policy\.yaml: "):
        load_policy(str(tmp_path / "policy.yaml"))
