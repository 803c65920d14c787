"""Every refusal of the daemon, each with the HTTP status it becomes.

CellzError                 status, code, hint
├── BadRequest             400  malformed: JSON, query, cell id
├── BadShape               422  well-formed JSON of the wrong shape
├── Unauthorized           401  no key, or an unknown one
├── Forbidden              403  a reader's key on a writer's route
├── NotFound               404  alarm, kv key, branch
├── Conflict               409  exists already, or the log no longer has that place
├── TooLarge               413  body or event over its limit in bytes
├── HeldElsewhere          421  another node holds the cell; says where
├── Failed                 500  what the original answers with 500
├── StoreTrouble           503  blob store or SQLite in trouble; retry later
│   ├── Fenced             503  the lease was lost while the request was under way
│   └── NotOpen            503  the cell was put down meanwhile; the node asks again by itself
├── Quarantined            503  this one cell's database is damaged
├── NotReady               503  draining
└── SettingsInvalid        never served: stops the start
"""

from __future__ import annotations

from manifests.errors import FleetctlError


class CellzError(FleetctlError):
    """A refusal with the HTTP status that tells a client what to do about it."""

    code = "cellz.error"
    status = 500

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return the response headers that belong to this refusal."""
        return []


class BadRequest(CellzError):
    """The request cannot be understood."""

    code = "cellz.bad_request"
    status = 400


class BadShape(CellzError):
    """The JSON is well formed and not what the route takes."""

    code = "cellz.bad_shape"
    status = 422


class Unauthorized(CellzError):
    """An API key is needed; the answer is the same whatever was wrong with the one given."""

    code = "cellz.unauthorized"
    status = 401

    def __init__(self) -> None:
        super().__init__("an API key is needed")

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return the challenge of RFC 9110, section 11.6.1."""
        return [(b"www-authenticate", b"Bearer")]


class Forbidden(CellzError):
    """The key may read and not write."""

    code = "cellz.forbidden"
    status = 403

    def __init__(self) -> None:
        super().__init__("this API key may read and not write")


class NotFound(CellzError):
    """The named thing is not in this cell."""

    code = "cellz.not_found"
    status = 404


class Conflict(CellzError):
    """The request contradicts what is there."""

    code = "cellz.conflict"
    status = 409


class TooLarge(CellzError):
    """A body or an event is over its limit, counted in bytes as they arrive."""

    code = "cellz.too_large"
    status = 413


class HeldElsewhere(CellzError):
    """Another node holds the cell's lease; `owner` is the address it advertises, or "" when unknown."""

    code = "cellz.held_elsewhere"
    status = 421

    def __init__(self, cell: str, owner: str, retry_after_s: float) -> None:
        where = f" at {owner}" if owner else ""
        super().__init__(f"cell '{cell}' is held by another node{where}")
        self.owner = owner
        self.retry_after_s = retry_after_s

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return the owner's address and when the lease can be judged again."""
        found = [(b"retry-after", str(max(1, round(self.retry_after_s))).encode())]
        if self.owner:
            found.append((b"x-cellz-owner", self.owner.encode()))
        return found


class Failed(CellzError):
    """What the original answers with 500, kept for its clients."""

    code = "cellz.failed"
    status = 500


class StoreTrouble(CellzError):
    """The blob store or SQLite cannot serve now; nothing was acknowledged."""

    code = "cellz.store_trouble"
    status = 503

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return a short wait, since most trouble of a store passes."""
        return [(b"retry-after", b"1")]


class Fenced(StoreTrouble):
    """The lease was lost: a newer epoch writes this cell, and nothing of this request was acknowledged."""

    code = "cellz.fenced"


class NotOpen(StoreTrouble):
    """The cell was put down while the request waited; asking again brings it back."""

    code = "cellz.not_open"


class Quarantined(CellzError):
    """This cell's database is damaged and set apart; the other cells go on."""

    code = "cellz.quarantined"
    status = 503


class NotReady(CellzError):
    """The node drains and takes no new work."""

    code = "cellz.not_ready"
    status = 503

    def __init__(self) -> None:
        super().__init__("the node is draining")

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return a short wait: a peer takes the cell over."""
        return [(b"retry-after", b"1")]


class SettingsInvalid(CellzError):
    """A setting is wrong; the message has its name and the reason."""

    code = "cellz.settings"
