"""Chat endpoints: an OpenAI-compatible client with typed answers, retries, repair turns and a cache."""

from rubricworks.llm.client import ChatClient
from rubricworks.llm.endpoint import Endpoint, GivesLogprobs, ImageEndpoint, SeesImages
from rubricworks.llm.messages import fence, image_part, text_part
from rubricworks.llm.preflight import check_endpoint, check_sees_images, list_models
from rubricworks.llm.question import ChatError, NoLogprobs, Reply
from rubricworks.llm.spending import Budget, Spending, read_budget, read_spending, write_budget
from rubricworks.llm.usage import Totals, Usage

__all__ = [
    "Budget",
    "ChatClient",
    "ChatError",
    "Endpoint",
    "Reply",
    "Spending",
    "Totals",
    "Usage",
    "check_endpoint",
    "check_sees_images",
    "GivesLogprobs",
    "ImageEndpoint",
    "NoLogprobs",
    "SeesImages",
    "fence",
    "image_part",
    "list_models",
    "read_budget",
    "read_spending",
    "text_part",
    "write_budget",
]
