"""fleetctl explain: what a key of a manifest means, and how it is written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from fleetctl.cli import completion, options
from fleetctl.cli.invocation import Invocation
from manifests.errors import ExitCode

if TYPE_CHECKING:
    from manifests.key_facts import KeyFacts

_PLACE = re.compile(r"\[[^\]]*\]")


@click.command(short_help="Say what a key of a manifest means.")
@click.argument("key", metavar="KEY", required=False, shell_complete=completion.keys)
@options.format_option("human", "json")
@options.debug_option
@click.pass_obj
def command(invocation: Invocation, key: str | None, form: str) -> int:
    """Say what KEY means, what it takes, what holds without it, and show it as it is written.

    KEY is a kind and keys with dots between, such as `fleet` or `fleet.groups.health.interval`; without it, the
    kinds are listed.
    """
    from fleetctl.cli.views import json_text
    from manifests.explain import explain
    from manifests.key_facts import facts
    from manifests.schema.kinds import KINDS

    terminal = invocation.terminal
    if key is None:
        shown = [(kind.lower(), explain(kind).partition("\n")[0].partition("— ")[2]) for kind in KINDS]
        if form == "json":
            terminal.data(json_text.render(_document("", "", None, dict(shown))))
        else:
            terminal.data("\n".join(f"{kind:<14} {text}" for kind, text in shown))
            terminal.say("The keys of one: fleetctl explain fleet")
        return ExitCode.OK
    key = _PLACE.sub("", key)
    text = explain(key)
    name, *steps = [part for part in key.split(".") if part not in ("", "*")]
    kind = next(k for k in KINDS if k.lower() == name.lower())
    about = facts(kind, tuple(steps))
    below = {k: _line(facts(kind, (*steps, k))) for k in about.below}
    path = ".".join([kind.lower(), *steps])
    if form == "json":
        terminal.data(json_text.render(_document(path, text, about, below)))
        return ExitCode.OK
    terminal.data(terminal.out_paint("bold", path) + (f": {_line(about)}" if steps else ""))
    terminal.data("\n" + text.rstrip("\n"))
    if below:
        width = max(map(len, below))
        terminal.data("\nKeys:\n" + "\n".join(f"  {k:<{width}}  {line}" for k, line in below.items()))
    return ExitCode.OK


def _line(about: KeyFacts) -> str:
    if about.required:
        return f"{about.takes}; required"
    return about.takes if about.default is None else f"{about.takes}; default {about.default}"


def _document(key: str, text: str, about: KeyFacts | None, below: dict[str, str]) -> dict[str, Any]:
    return {
        "format_version": "1.0",
        "key": key,
        "takes": None if about is None else about.takes,
        "required": about is not None and about.required,
        "default": None if about is None else about.default,
        "text": text,
        "keys": below,
    }
