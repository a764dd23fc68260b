"""CLIPScore behind an endpoint, as a reward or a scorer of generated images.

    python examples/clip_score_server.py openai/clip-vit-large-patch14 [PORT]

and in the recipe: `policy: {reward: {endpoints: [{url: "http://localhost:8100/v1", model: clip}]}}`.

The protocol is OpenAI's chat completions: the user message holds the prompt between prompt tags and the image as a data
URL, and the answer is `{"score": 2.5 * max(cosine, 0)}` (Hessel et al., 2021). HPSv2 or an aesthetic predictor takes
the place of `clip_score`. Requests are scored one after the other, as one model on one device does it.
"""

import base64
import io
import json
import re
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer

import torch
from PIL import Image
from transformers import CLIPModel, CLIPProcessor

Score = Callable[[str, Image.Image], float]
_PROMPT = re.compile(r"<prompt>\n(.*)\n</prompt>", re.DOTALL)


def clip_score(folder: str) -> Score:
    """CLIPScore by a model of the Hub or a folder."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model, processor = CLIPModel.from_pretrained(folder).to(device).eval(), CLIPProcessor.from_pretrained(folder)
    longest = model.config.text_config.max_position_embeddings

    @torch.inference_mode()
    def score(prompt: str, image: Image.Image) -> float:
        inputs = processor(text=[prompt], images=[image], return_tensors="pt", truncation=True, max_length=longest).to(
            device
        )
        result = model(**inputs)
        cosine = torch.nn.functional.cosine_similarity(result.text_embeds, result.image_embeds)
        return 2.5 * max(float(cosine), 0.0)

    return score


def read_request(body: dict) -> tuple[str, Image.Image]:
    """Prompt and image of a chat request."""
    parts = [part for message in body["messages"] if message["role"] == "user" for part in message["content"]]
    text = next(part["text"] for part in parts if part["type"] == "text")
    url = next(part["image_url"]["url"] for part in parts if part["type"] == "image_url")
    image = Image.open(io.BytesIO(base64.b64decode(url.partition(";base64,")[2]))).convert("RGB")
    match = _PROMPT.search(text)
    return (match[1] if match else text).replace("&lt;", "<"), image


def make_server(score: Score, *, name: str = "clip", port: int = 8100) -> HTTPServer:
    """Server of one scorer; port 0 is a free one."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self.reply(200, {"object": "list", "data": [{"id": name, "object": "model"}]})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                prompt, image = read_request(json.loads(body))
            except (ValueError, KeyError, TypeError, StopIteration, OSError) as error:
                self.reply(400, {"error": {"message": f"send a prompt and an image: {error!r}"}})
                return
            message = {"role": "assistant", "content": json.dumps({"score": score(prompt, image)})}
            self.reply(200, {"object": "chat.completion", "choices": [{"message": message, "finish_reason": "stop"}]})

        def reply(self, status: int, value: dict) -> None:
            payload = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, *_: object) -> None:
            """Keep quiet about requests."""

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


if __name__ == "__main__":
    server = make_server(clip_score(sys.argv[1]), port=int(sys.argv[2]) if len(sys.argv) > 2 else 8100)
    print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
    server.serve_forever()
