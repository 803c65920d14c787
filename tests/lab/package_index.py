"""What pip needs to install this project, fetched once from the index of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.house.sources import ROOT
from tests.lab.process import LabError

FETCH_TIMEOUT_S = 300
# How whoever runs the tests has set pip up: its index, certificates and proxies.
SETTINGS = ("PIP_", "SSL_CERT_", "REQUESTS_CA_BUNDLE", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


def fetched(folder: Path) -> dict[str, str]:
    """Fetches the packages, and gives the variables with which pip takes them from there and asks nobody.

    Raises LabError, in one line, where they cannot be had.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    kept = {name: value for name, value in os.environ.items() if name.upper().startswith(SETTINGS)}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(folder), *wanted],
            env={"PATH": os.environ["PATH"], "HOME": str(Path.home()), "PIP_RETRIES": "1", **kept},
            capture_output=True,
            text=True,
            timeout=FETCH_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise LabError(f"pip had not fetched all packages within {FETCH_TIMEOUT_S} s") from None
    if done.returncode:
        raise LabError(
            f"pip cannot fetch the packages: {(done.stderr.strip() or 'no word').splitlines()[-1]}"
        )
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
