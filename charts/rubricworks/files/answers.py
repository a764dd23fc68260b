"""What `helm test` asks: is each server there, ready, and closed to callers without a token?"""

import os
import sys
import time
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen


def status(url: str, token: str = "") -> str:
    """The status of an answer, or why there is none."""
    request = Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urlopen(request, timeout=10) as answer:
            return str(answer.status)
    except HTTPError as error:
        return str(error.code)
    except (URLError, OSError) as error:
        return str(getattr(error, "reason", error))


def main(questions: list[str]) -> int:
    """Ask each `STATUS URL [VARIABLE of the token]`, for a minute; how many were answered otherwise."""
    failed = 0
    give_up = time.monotonic() + float(os.environ.get("ANSWER_WITHIN", "60"))
    for question in questions:
        expected, url, *variable = question.split()
        token = os.environ.get(variable[0], "") if variable else ""
        while (found := status(url, token)) != expected and time.monotonic() < give_up:
            time.sleep(1)
        failed += found != expected
        verdict = "ok" if found == expected else f"FAILED: {expected} expected"
        print(f"{url}{' with the token' if token else ''}: {found} {verdict}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
