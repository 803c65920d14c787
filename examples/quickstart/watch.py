"""The quickstart's client: keeps asking every node for its version, and says what it saw.

    watch.py ask LOG URL...     ask all nodes again and again until SIGTERM; one line a round goes to LOG
    watch.py report LOG         tell from LOG what changed and how many nodes were down at once
    watch.py gone URL...        exit 0 when no node answers any more

Standard library only; it knows nothing of fleetctl.
"""

import json
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.request import urlopen

INTERVAL_S = 0.04
# A node that takes longer than this counts as down: a client would have given up.
TIMEOUT_S = 1.0
DOWN = "down"


def version(url):
    """The version that answers at the URL, or DOWN."""
    try:
        with urlopen(f"{url}/version", timeout=TIMEOUT_S) as response:
            return json.load(response)["version"]
    except (OSError, ValueError, KeyError):
        return DOWN


def ask(log_path, urls):
    """Asks all nodes at once, round after round, and logs what each answered."""
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    start = time.monotonic()
    with ThreadPoolExecutor(len(urls)) as pool, open(log_path, "w", encoding="utf-8") as log:
        while not stopped.wait(INTERVAL_S):
            at_s = time.monotonic() - start
            print(f"{at_s:.3f}", *pool.map(version, urls), file=log, flush=True)


def report(log_path):
    """Prints every change that the client saw and the most nodes that were down in one round.

    Returns 0 if that were never more than one.
    """
    with open(log_path, encoding="utf-8") as log:
        rounds = [line.split() for line in log]
    if not rounds:
        print("The client asked nothing.")
        return 1
    before = None
    for at_s, *answers in rounds:
        if answers != before:
            print(f"  {float(at_s):6.2f} s   " + "   ".join(f"{answer:<5}" for answer in answers).rstrip())
        before = answers
    down = [answers.count(DOWN) for _, *answers in rounds]
    print(
        f"The client asked {len(rounds)} times: all nodes answered {down.count(0)} times, "
        f"one was down {down.count(1)} times, more than one {sum(n > 1 for n in down)} times."
    )
    return 0 if max(down) <= 1 else 1


def main(arguments):
    match arguments:
        case ["ask", log_path, *urls] if urls:
            ask(log_path, urls)
            return 0
        case ["report", log_path]:
            return report(log_path)
        case ["gone", *urls] if urls:
            return 0 if all(version(url) == DOWN for url in urls) else 1
    print(__doc__, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
