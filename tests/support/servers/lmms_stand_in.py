"""A stand-in for `python -m lmms_eval`: it asks the endpoint about a local Parquet file, and writes the files that
lmms-eval 0.7.3 writes. The text of `FAULT` in its folder makes it fail as the real one does: with exit code 0. The keys
that it was given are in `keys.json` there, and with USE_LLM_JUDGE it asks the judge of every answer, as a failed call
or an unreadable answer of whom it counts 0.
"""

import argparse
import importlib.util
import json
import os
import stat
import sys
import urllib.request
from base64 import b64encode
from pathlib import Path

LAUNCHER = '#!/bin/sh\nshift 2\nexec {python} {script} "$@"\n'


def write_launcher(folder: Path) -> Path:
    """An executable in place of the environment's Python."""
    path = folder / "lmms-python"
    path.write_text(LAUNCHER.format(python=sys.executable, script=__file__))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("model", "model_args", "tasks", "batch_size", "output_path", "include_path", "limit", "gen_kwargs"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--log_samples", action="store_true")
    options = parser.parse_args()
    include = Path(options.include_path)
    fault = (include / "FAULT").read_text() if (include / "FAULT").is_file() else ""
    if fault == "dies":
        print("Error during evaluation: the dataset cannot be loaded", file=sys.stderr)
        return  # as the real one: exit code 0 and no file
    import pyarrow.parquet as pq

    task = options.tasks
    model = dict(pair.split("=", 1) for pair in options.model_args.split(","))
    spec = importlib.util.spec_from_file_location("scene_rules", include / "scene_rules.py")
    rules = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(rules)
    docs = pq.read_table(include / f"{task}.parquet").to_pylist()[: int(options.limit or 10**9)]
    keys = {"OPENAI_API_KEY": os.environ.get("OPENAI_API_KEY"), "api_key": model.get("api_key"),
            "gen_kwargs": options.gen_kwargs}  # fmt: skip
    (include / "keys.json").write_text(json.dumps(keys))
    lines = []
    for number, doc in enumerate(docs):
        unanswered = fault == "unanswered" and number == 0
        answer = "" if unanswered else ask(model, doc)
        tokens = 0 if unanswered else len(answer.split())
        counts = [{"input_tokens": 1, "output_tokens": tokens, "reasoning_tokens": 0}]
        lines.append({"doc_id": number, "target": doc["answer"], "filtered_resps": answer, "token_counts": counts}
                     | rules.process_results(doc, [answer]))  # fmt: skip
        if os.environ.get("USE_LLM_JUDGE") == "True":
            lines[-1]["right"] = judged(answer)
    value = sum(line["right"] for line in lines) / len(lines)
    place = Path(options.output_path) / model["model_version"]
    place.mkdir(parents=True, exist_ok=True)
    results = {
        "results": {task: {"alias": task, "right,none": value, "right_stderr,none": "N/A"}},
        "group_subtasks": {task: []},
        "configs": {task: {"task": task}},
        "versions": {task: "1.0"},
        "n-samples": {task: {"original": len(docs), "effective": len(docs)}},
    }
    (place / "20261123_000000_results.json").write_text(json.dumps(results))
    written = lines[:-1] if fault == "truncated" else lines
    (place / f"20261123_000000_samples_{task}.jsonl").write_text("\n".join(json.dumps(line) for line in written))


def judged(answer: str) -> float:
    body = {"model": os.environ["JUDGE_MODEL_NAME"], "messages": [{"role": "user", "content": f"right? {answer}"}]}
    try:
        return float(post(f"{os.environ['JUDGE_BASE_URL']}/chat/completions", body))
    except (OSError, ValueError):
        return 0.0


def ask(model: dict, doc: dict) -> str:
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{b64encode(doc['image']).decode()}"}}
    content = [image, {"type": "text", "text": doc["question"]}]
    body = {"model": model["model_version"], "messages": [{"role": "user", "content": content}]}
    return post(f"{model['base_url']}/chat/completions", body)


def post(url: str, body: dict) -> str:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]


if __name__ == "__main__":
    main()
