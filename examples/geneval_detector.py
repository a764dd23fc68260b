"""GenEval's detector behind an endpoint: Mask2Former finds objects, CLIP names their colours.

    python examples/geneval_detector.py facebook/mask2former-swin-small-coco-instance \\
        openai/clip-vit-large-patch14 [[HOST:]PORT]

and in the recipe: `evaluation: {scorers: {geneval: {url: "http://localhost:8200/detect"}}}`; or let the run start it:

    serve:
      detector:
        command: [python, examples/geneval_detector.py, facebook/mask2former-swin-small-coco-instance,
                  openai/clip-vit-large-patch14, "{host}:{port}"]
    evaluation: {scorers: {geneval: {serve: detector}}}

A request is `{"image": <data URL>}`, an answer `{"detections": {class: [object]}}` with every object above 0.3 as
`{"box": [x1, y1, x2, y2, confidence], "color": "red"}`. The scorer keeps those above 0.9 where objects are counted, as
the official code does. Both models are those that djghosh13/geneval names, but transformers resizes images otherwise
than mmdet: compare with the official environment before you publish figures. Any detector with this protocol can take
its place.
"""

import base64
import io
import json
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from threading import Lock

import numpy as np
import torch
from PIL import Image
from transformers import CLIPModel, CLIPProcessor, Mask2FormerForUniversalSegmentation
from transformers.models.mask2former.image_processing_pil_mask2former import Mask2FormerImageProcessorPil

Detections = dict[str, list[dict]]
COLORS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white")
PROMPTS = ("a photo of a {color} {name}", "a photo of a {color}-colored {name}", "a photo of a {color} object")
NAMES = {"mouse": "computer mouse", "remote": "tv remote", "keyboard": "computer keyboard"}
"""COCO's class → its name in GenEval's prompts."""
BACKGROUND = "#999"
LOWEST_CONFIDENCE = 0.3


def object_detector(detector: str, clip: str) -> Callable[[Image.Image], Detections]:
    """Detector by two models of the Hub or folders."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    processor = Mask2FormerImageProcessorPil.from_pretrained(detector)
    model = Mask2FormerForUniversalSegmentation.from_pretrained(detector).to(device).eval()
    color_of = color_classifier(clip, device)

    @torch.inference_mode()
    def detect(image: Image.Image) -> Detections:
        outputs = model(**processor(image, return_tensors="pt").to(device))
        result = processor.post_process_instance_segmentation(
            outputs, threshold=LOWEST_CONFIDENCE, target_sizes=[image.size[::-1]], return_binary_maps=True
        )[0]
        by_class: Detections = {}
        for segment in sorted(result["segments_info"], key=lambda segment: -segment["score"]):
            mask = np.asarray(result["segmentation"][segment["id"]].cpu()) > 0
            rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
            box = [int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1]
            name = model.config.id2label[segment["label_id"]]
            name = NAMES.get(name, name)
            color = color_of(name, cut_out(image, mask, box))
            by_class.setdefault(name, []).append({"box": [*box, segment["score"]], "color": color})
        return by_class

    return detect


def cut_out(image: Image.Image, mask: np.ndarray, box: list[int]) -> Image.Image:
    """An object on grey, cropped to its box."""
    return Image.composite(image, Image.new("RGB", image.size, BACKGROUND), Image.fromarray(mask)).crop(box)


def color_classifier(folder: str, device: str) -> Callable[[str, Image.Image], str]:
    """Zero-shot classifier of an object's colour; a colour's embedding is the mean of its prompts'."""
    model, processor = CLIPModel.from_pretrained(folder).to(device).eval(), CLIPProcessor.from_pretrained(folder)
    longest = model.config.text_config.max_position_embeddings
    known: dict[str, torch.Tensor] = {}

    def embeddings(name: str) -> torch.Tensor:
        texts = [prompt.format(color=color, name=name) for color in COLORS for prompt in PROMPTS]
        tokens = processor.tokenizer(texts, return_tensors="pt", padding=True, truncation=True, max_length=longest)
        of_prompts = model.text_projection(model.text_model(**tokens.to(device)).pooler_output)
        of_prompts = torch.nn.functional.normalize(of_prompts, dim=-1)
        of_colors = of_prompts.view(len(COLORS), len(PROMPTS), -1).mean(dim=1)
        return torch.nn.functional.normalize(of_colors, dim=-1)

    def classify(name: str, image: Image.Image) -> str:
        if name not in known:
            known[name] = embeddings(name)
        pixels = processor.image_processor([image], return_tensors="pt").to(device)
        embedding = model.visual_projection(model.vision_model(**pixels).pooler_output)[0]
        return COLORS[int((known[name] @ embedding).argmax())]

    return classify


def make_server(detect: Callable[[Image.Image], Detections], port: int = 8200, host: str = "127.0.0.1") -> HTTPServer:
    """Server of one detector, an image at a time; port 0 is a free one."""
    lock = Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                content = base64.b64decode(json.loads(body)["image"].partition(";base64,")[2])
                image = Image.open(io.BytesIO(content)).convert("RGB")
            except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
                self.reply(400, {"error": f"send an image as a data URL: {error!r}"})
                return
            with lock:
                self.reply(200, {"detections": detect(image)})

        def reply(self, status: int, value: dict) -> None:
            payload = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, *_: object) -> None:
            """Keep quiet about requests."""

    return ThreadingHTTPServer((host, port), Handler)


if __name__ == "__main__":
    given_host, _, given_port = (sys.argv[3] if len(sys.argv) > 3 else "8200").rpartition(":")
    server = make_server(object_detector(*sys.argv[1:3]), int(given_port), given_host or "127.0.0.1")
    print(f"http://{server.server_address[0]}:{server.server_port}/detect", flush=True)
    server.serve_forever()
