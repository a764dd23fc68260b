"""Grading by autorubric, in an environment of its own: the other end of `peers.Autorubric`.

The first line of the standard input says what to grade; each further one, how many responses to grade now. Every line
is answered with one line of JSON. Its own defaults hold: no cache, no limit of requests in flight but the one given.
"""

import asyncio
import gc
import itertools
import json
import os
import sys
import time


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no answer
    from autorubric import LLMConfig, Rubric
    from autorubric.graders import CriterionGrader

    setting = json.loads(sys.stdin.readline())
    judge = LLMConfig(
        model=setting["model"],
        api_base=setting["url"],
        api_key="none",
        temperature=0.0,
        max_tokens=1024,
        max_parallel_requests=setting["concurrency"],
    )
    grader = CriterionGrader(judge_model_config=judge, llm_calls=setting["llm_calls"])
    rubric = Rubric.from_dict(setting["criteria"])
    numbers = itertools.count()

    async def grade(responses: int) -> None:
        captions = [f"{setting['caption']}{next(numbers)}" for _ in range(responses)]
        for report in await asyncio.gather(*(rubric.grade(to_grade=caption, grader=grader) for caption in captions)):
            if report.error is not None or report.score != 1.0:
                raise ValueError(f"autorubric scored {report.score}: {report.error}")

    def say(**answer: object) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    with asyncio.Runner() as runner:
        say(ready=True)
        for line in sys.stdin:
            gc.collect()
            cpu, began = time.process_time(), time.perf_counter()
            runner.run(grade(int(line)))
            say(seconds=time.perf_counter() - began, cpu_seconds=time.process_time() - cpu)


if __name__ == "__main__":
    main()
