"""The server over real HTTP, with the official client: chat with images, usage, errors, the oracle, a clean stop."""

import base64
import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
from PIL import Image

from rubricworks.errors import UserError
from rubricworks.evaluation.rubric_audit import RubricReading, reading_messages
from rubricworks.rubrics import Criterion
from rubricworks.world.models.captioners import teacher_caption
from rubricworks.world.scene.captions import write_caption
from rubricworks.world.scene.export import export_scenes, noisy_caption
from rubricworks.world.scene.scene import generate_scenes
from rubricworks.world.scene.scene_index import read_scene_index
from rubricworks.world.server import MODELS, serve

SEED, COUNT = 4, 12
SETTINGS = "Consensus: at least 2 of 3 candidates.\nCoverage: full.\nStanding guards: no."
PROGRAM = (
    "import sys; from rubricworks.world.server import serve\n"
    "serve(sys.argv[1], '::', on_ready=lambda url: print(url, flush=True))"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scenes")
    export_scenes(folder, seed=SEED, count=COUNT)
    return folder


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    server = subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder)], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    port = server.stdout.readline().strip().rpartition(":")[2]
    yield f"http://127.0.0.1:{port}"
    server.send_signal(signal.SIGTERM)
    assert server.wait(timeout=300) == 0
    server.stdout.close()


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        yield client


def data_url(image: bytes, kind: str = "png") -> str:
    return f"data:image/{kind};base64,{base64.b64encode(image).decode()}"


def picture(folder: Path, index: int) -> bytes:
    return (folder / "images" / f"scene-{index:05d}.png").read_bytes()


def user(text: str, image: bytes | None = None) -> list[dict]:
    parts: list[dict] = [{"type": "text", "text": text}]
    if image is not None:
        parts.insert(0, {"type": "image_url", "image_url": {"url": data_url(image)}})
    return [{"role": "user", "content": parts}]


def says(client: openai.OpenAI, model: str, messages: list[dict], **options: object) -> str:
    reply = client.chat.completions.create(model=model, messages=messages, **options)
    return reply.choices[0].message.content


def test_models_are_listed(client: openai.OpenAI):
    assert tuple(model.id for model in client.models.list()) == MODELS
    assert len(MODELS) == len(set(MODELS)) >= 12


def test_teacher_describes_the_image_it_is_sent_with_usage(client: openai.OpenAI, folder: Path):
    reply = client.chat.completions.create(model="teacher-2", messages=user("Describe it.", picture(folder, 3)), seed=5)
    digest, scene = read_scene_index(folder).find(picture(folder, 3))
    assert reply.choices[0].message.content == teacher_caption("teacher-2", scene, digest, request_seed=5)
    assert reply.choices[0].finish_reason == "stop"
    assert reply.model == "teacher-2"
    assert reply.usage.prompt_tokens > 85
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens


def test_scene_is_found_after_lossless_reencoding(client: openai.OpenAI, folder: Path, tmp_path: Path):
    again = tmp_path / "again.png"
    Image.open(folder / "images" / "scene-00001.png").convert("RGBA").save(again, compress_level=1)
    assert again.read_bytes() != picture(folder, 1)
    captions = {says(client, "teacher-1", user("x", image)) for image in (picture(folder, 1), again.read_bytes())}
    assert len(captions) == 1


def test_answer_is_cut_at_max_tokens(client: openai.OpenAI, folder: Path):
    reply = client.chat.completions.create(model="teacher-5", messages=user("x", picture(folder, 0)), max_tokens=10)
    assert reply.choices[0].finish_reason == "length"
    assert reply.usage.completion_tokens == 10
    assert len(reply.choices[0].message.content) <= 40


def test_judge_answers_a_text_prompt_under_a_json_schema(client: openai.OpenAI):
    criterion = {"id": 1, "criterion": "c", "evaluation_rule": "Passes if the caption names a star at the top."}
    prompt = f"<criteria>\n{json.dumps([criterion])}\n</criteria>\n\n<caption>\nat top a star\n</caption>"
    schema = {"type": "json_schema", "json_schema": {"name": "Judgment", "schema": {"type": "object"}, "strict": True}}
    messages = [{"role": "system", "content": "Judge."}, {"role": "user", "content": prompt}]
    reply = says(client, "judge", messages, response_format=schema)
    assert json.loads(reply)["verdicts"][0]["score"] == 1


@pytest.mark.parametrize(
    "model", ["judge", "cheap-judge", "gullible-judge", "image-reading-judge", "scorer", "scorer-3"]
)
def test_judges_of_texts_read_criteria_too(client: openai.OpenAI, model: str):
    """The gates of RubiCap, BalCapRL and RLR³ ask the judge that grades."""
    messages = reading_messages([Criterion(criterion="Names the star and says that it is red", weight=1)])
    (reading,) = RubricReading.model_validate_json(says(client, model, messages)).readings
    assert len(reading.assertions) == 2


def test_seeing_judges_and_writer_answer(client: openai.OpenAI, folder: Path):
    scene, image = next(generate_scenes(SEED, 1)), picture(folder, 0)
    good = write_caption(scene)
    pair = f"<caption_a>\n{good}\n</caption_a>\n<caption_b>\nnothing\n</caption_b>"
    assert json.loads(says(client, "pairwise-judge", user(pair, image)))["judgment"] == "A"
    assert int(says(client, "likert-judge", user(f"<caption>\n{good}\n</caption>", image))) >= 8
    committee = "\n\n".join(f'<candidate name="Model {n}">\n{good}\n</candidate>' for n in (1, 2, 3))
    ask = f"<student_caption>\nnothing\n</student_caption>\n\n{committee}\n\n{SETTINGS}"
    rubric = json.loads(says(client, "rubric-writer", user(ask, image)))["rubrics"]
    assert len(rubric) == 3 * len(scene.objects) + (scene.word is not None)


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"model": "gpt-4o"}, openai.NotFoundError, "teacher-1"),
        ({"n": 2}, openai.BadRequestError, "one choice"),
        ({"stream": True}, openai.BadRequestError, "does not stream"),
        ({"messages": []}, openai.BadRequestError, "at least one message"),
        ({"messages": user("x")}, openai.BadRequestError, "looks at an image"),
        ({"messages": user("x", b"no picture")}, openai.BadRequestError, "not a readable PNG or JPEG"),
        ({"seed": "x"}, openai.BadRequestError, "seed must be an integer"),
    ],
)
def test_errors_are_openais(client: openai.OpenAI, folder: Path, change: dict, error: type[Exception], says: str):
    request = {"model": "teacher-1", "messages": user("x", picture(folder, 0))} | change
    with pytest.raises(error, match=says) as caught:
        client.chat.completions.create(**request)
    assert caught.value.body["type"] == "invalid_request_error"


def test_image_of_another_world_is_refused_as_such(client: openai.OpenAI, tmp_path: Path):
    for size, says in (((96, 96), "not one of the scenes"), ((640, 480), "96x96 pixels, this image is 640x480")):
        foreign = tmp_path / "foreign.png"
        Image.new("RGB", size, (1, 2, 3)).save(foreign)
        with pytest.raises(openai.BadRequestError, match=says) as caught:
            client.chat.completions.create(model="teacher-1", messages=user("x", foreign.read_bytes()))
        assert caught.value.body["code"] == "unknown_image"


def test_remote_images_are_never_fetched(client: openai.OpenAI):
    part = {"type": "image_url", "image_url": {"url": "http://127.0.0.1:1/x.png"}}
    with pytest.raises(openai.BadRequestError, match="fetches nothing"):
        client.chat.completions.create(model="teacher-1", messages=[{"role": "user", "content": [part]}])


def test_raw_requests_get_json_errors_and_the_oracle_scores(client: openai.OpenAI, url: str, folder: Path):
    http = client._client
    broken = http.post(f"{url}/v1/chat/completions", content=b"{not json")
    assert (broken.status_code, "not valid JSON" in broken.json()["error"]["message"]) == (400, True)
    assert http.get(f"{url}/nowhere").json()["error"]["type"] == "invalid_request_error"
    assert http.get(f"{url}/healthz").json() == {"status": "ok", "scenes": COUNT}
    truth = write_caption(list(generate_scenes(SEED, COUNT))[7])
    body = {"image": data_url(picture(folder, 7)), "captions": [truth, "", "at top"]}
    scores = http.post(f"{url}/oracle/score", json=body).json()["scores"]
    assert [score["f1"] for score in scores] == [1, 0, 0]
    assert [score["objects_named"] for score in scores][1:] == [0, 1]
    assert http.post(f"{url}/oracle/score", json={"image": body["image"], "captions": "x"}).status_code == 400
    assert http.post(f"{url}/oracle/score", json=[]).status_code == 400


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_server_of_every_address_is_reached_by_ipv6(url: str):
    with urllib.request.urlopen(f"{url.replace('127.0.0.1', '[::1]')}/healthz", timeout=60) as answer:
        assert answer.status == 200


def test_export_writes_an_image_folder_with_noisy_captions_and_the_truth_beside_it(folder: Path, tmp_path: Path):
    rows = [json.loads(line) for line in (folder / "images" / "metadata.jsonl").read_text().splitlines()]
    assert [row["file_name"] for row in rows] == [f"scene-{index:05d}.png" for index in range(COUNT)]
    assert rows[2]["text"] == noisy_caption(list(generate_scenes(SEED, COUNT))[2], SEED, 2)
    assert sorted(path.name for path in folder.iterdir()) == ["images", "scenes.jsonl"]
    export_scenes(tmp_path, seed=SEED, count=COUNT + 3)
    export_scenes(tmp_path, seed=SEED, count=COUNT)
    assert {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*.*")} == {
        path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.*")
    }


def test_bad_folders_and_taken_ports_are_user_errors(folder: Path, tmp_path: Path, url: str):
    with pytest.raises(UserError, match=r"no scenes\.jsonl"):
        serve(tmp_path)
    (tmp_path / "run" / "world").mkdir(parents=True)
    (tmp_path / "run" / "world" / "scenes.jsonl").touch()
    with pytest.raises(UserError, match=r"its scenes are in .*world"):
        serve(tmp_path / "run")
    (tmp_path / "scenes.jsonl").write_text('{"scene": 1}\n')
    with pytest.raises(UserError, match="line 1 is not a scene"):
        serve(tmp_path)
    with pytest.raises(UserError, match="cannot listen on"):
        serve(folder, port=int(url.rsplit(":", 1)[1]))
    with pytest.raises(UserError, match="at least 1"):
        export_scenes(tmp_path, seed=1, count=0)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write scenes"):
        export_scenes(tmp_path / "file", seed=1, count=1)
