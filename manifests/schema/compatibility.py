"""kind: Compatibility — which version transitions of a product are declared, and how."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from manifests.schema.base import Model, Name, Text, Version

Mode = Literal["rolling", "full", "refuse"]
Reverse = Literal["rolling", "full", "never"]


class Pair(Model):
    """A directed transition. `reverse` left out means never: the way back is not declared."""

    from_: Annotated[Version, Field(alias="from")]
    to: Version
    mode: Mode
    reverse: Reverse = "never"
    reason: Text | None = None
    source: Text | None = None


class Compatibility(Model):
    """The declared transitions of one product; several documents of a product add up."""

    api_version: Literal["fleetctl/v1"]
    kind: Literal["Compatibility"]
    product: Name
    pairs: Annotated[tuple[Pair, ...], Field(min_length=1)]
