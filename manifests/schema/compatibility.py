"""kind: Compatibility — which version transitions of a product are declared, and how."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from manifests.schema.base import Model, Name, Text, Version

Mode = Literal["rolling", "full", "refuse"]
Reverse = Literal["rolling", "full", "never", "evidence"]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class When(Model):
    """What a fleet's own settings must be for a pair to hold: these variables, on every node."""

    env: Annotated[dict[Variable, Text], Field(min_length=1)]


class Evidence(Model):
    """What decides at the time whether the way back is open: the stopped node's log must hold this text."""

    log: Annotated[Text, Field(min_length=1)]


class Pair(Model):
    """A directed transition. `reverse` left out means never: the way back is not declared.

    `changes_format`: the new version writes data that the old one cannot read, so a backup has to be made of
    each node first (`rollout.hooks.backup`); it holds for the way back as well.

    Of several pairs between the same versions, the first whose `when` holds is the one; one without `when`
    comes last.
    """

    from_: Annotated[Version, Field(alias="from")]
    to: Version
    mode: Mode
    reverse: Reverse = "never"
    changes_format: bool = False
    evidence: Evidence | None = None
    when: When | None = None
    reason: Text | None = None
    source: Text | None = None


class Environment(Model):
    """What the versions from `since` to before `until` make of their environment; checked before a plan acts."""

    since: Version
    until: Version | None = None
    refuses: tuple[Variable, ...] = ()
    requires: tuple[Variable, ...] = ()
    renamed: dict[Variable, Variable] = {}


class Compatibility(Model):
    """The declared transitions of one product; several documents of a product add up."""

    api_version: Literal["fleetctl/v1"]
    kind: Literal["Compatibility"]
    product: Name
    pairs: Annotated[tuple[Pair, ...], Field(min_length=1)]
    environment: tuple[Environment, ...] = ()
