"""Scorers that a user might write, well and badly."""

import asyncio

from rubricworks.evaluation import Score


def word_count(samples, responses):
    return [
        Score(sample_id=sample.sample_id, value=float(len(response.text.split())), part=part)
        for sample, response in zip(samples, responses, strict=True)
        for part in ("score", "again")
    ]


def two_parts(samples, responses):
    return [
        Score(sample_id=sample.sample_id, value=float(value), part=part)
        for sample, response in zip(samples, responses, strict=True)
        for part, value in (("words", len(response.text.split())), ("letters", len(response.text)))
    ]


async def every_second(samples, responses):
    await asyncio.sleep(0)
    return [Score(sample_id=sample.sample_id, value=1.0) for sample in samples[::2]]


def raising(samples, responses):
    raise RuntimeError("the moon is down")


def not_a_number(samples, responses):
    return [Score(sample_id=sample.sample_id, value=float("nan")) for sample in samples]


def numbers(samples, responses):
    return [1.0 for _ in responses]


def strangers(samples, responses):
    return [Score(sample_id="nobody", value=1.0)]


def twice(samples, responses):
    return [Score(sample_id=samples[0].sample_id, value=1.0)] * 2


def one_argument(samples):
    return []
