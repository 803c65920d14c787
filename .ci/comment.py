"""Writes a review as a comment on a pull request of GitHub, or over the one that an earlier run wrote.

    TOKEN=… PULL=7 GITHUB_API_URL=… GITHUB_REPOSITORY=owner/name python3 .ci/comment.py REVIEW.md

The review begins with a hidden marker, and the comment that begins with the same one is updated. The standard library
is all it needs, since it runs where fleetctl may live in an environment of its own. A token that may not write (that
of a pull request from a fork) is a warning: the review is in the log and the step's summary all the same.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

TIMEOUT_S = 30
PAGE_SIZE = 100
# A pull request with more comments gets another one.
PAGES_MAX = 30
BODY_CHARACTERS_MAX = 65_535
FORBIDDEN = (401, 403, 404)


def call(method: str, url: str, body: dict[str, str] | None = None) -> Any:
    """One request to the API; raises OSError."""
    if not url.startswith(("https://", "http://")):
        raise OSError(f"{url} is no address of an API")
    request = urllib.request.Request(
        url,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {os.environ['TOKEN']}",
            "Content-Type": "application/json",
            "User-Agent": "fleetctl",
        },
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
        return json.load(answer)


def earlier(comments: str, marker: str) -> str | None:
    """The URL of the comment that an earlier run wrote."""
    for page in range(1, PAGES_MAX + 1):
        found = call("GET", f"{comments}?per_page={PAGE_SIZE}&page={page}")
        for comment in found:
            if str(comment["body"]).startswith(marker):
                return str(comment["url"])
        if len(found) < PAGE_SIZE:
            break
    return None


def main(file: str) -> int:
    body = Path(file).read_text(encoding="utf-8")
    marker = body.partition("\n")[0].strip()
    if not marker.startswith("<!--"):
        print(f"::error::{file} does not begin with a marker, so no later run would find the comment")
        return 1
    api = f"{os.environ['GITHUB_API_URL']}/repos/{os.environ['GITHUB_REPOSITORY']}"
    comments = f"{api}/issues/{int(os.environ['PULL'])}/comments"
    try:
        there = earlier(comments, marker)
        words = {"body": body[:BODY_CHARACTERS_MAX]}
        if there is None:
            call("POST", comments, words)
        else:
            call("PATCH", there, words)
    except urllib.error.HTTPError as error:
        if error.code not in FORBIDDEN:
            raise
        print(f"::warning::the review was not written as a comment: the API answers {error.code}")
        return 0
    print("The review was written as a comment." if there is None else "The comment was updated.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
