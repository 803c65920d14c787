"""The summary of a GitHub step: the file that the runner names, added to and never needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fleetctl.cli.invocation import Invocation

if TYPE_CHECKING:
    from fleetctl.cli.views.markdown import Page

VARIABLE = "GITHUB_STEP_SUMMARY"


def add(invocation: Invocation, pages: Sequence[Page]) -> None:
    """Adds the pages where the runner names a file; a file that cannot be written is said, and changes nothing."""
    from fleetctl.cli.views import github

    path = invocation.environ.get(VARIABLE)
    if not path:
        return
    try:
        github.write_summary(Path(path), pages)
    except OSError as error:
        invocation.terminal.say(f"Warning: the step's summary cannot be written: {error.strerror}")
