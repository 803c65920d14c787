"""kind: Fleet — nodes of one product under one trust domain, rolled as one."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from manifests.schema.base import (
    NO_TEMPLATE,
    Bound,
    DurationMs,
    FileMode,
    LabelName,
    Labels,
    Model,
    Name,
    NonEmpty,
    Port,
    SecretRefText,
    SecretValue,
    SizeB,
    Template,
    Text,
    Version,
)
from manifests.schema.container import Container
from manifests.schema.domain import Domain
from manifests.schema.release import Substrate

# A fleet past this is a typing mistake, or needs to be several fleets.
NODES_MAX = 10_000
OnChange = Literal["reload", "restart", "replace"]
Signal = Literal["TERM", "INT", "HUP", "QUIT", "USR1", "USR2"]


class ReleasePin(Model):
    """The release that nodes run: a product and its exact version."""

    product: Name
    version: Version


def _form(value: Any) -> str:
    """Which form a variable is written in: decided by its keys, so that findings are about that form only."""
    if isinstance(value, SecretValue):
        return "<secret>"
    if isinstance(value, EnvVar) or (
        isinstance(value, dict) and not {"value", "on_change"}.isdisjoint(value)
    ):
        return "<variable>"
    return "<secret>" if isinstance(value, dict) else "<text>"


TextOrSecret = Annotated[
    Annotated[Template, Tag("<text>")] | Annotated[SecretValue, Tag("<secret>")], Discriminator(_form)
]


class EnvVar(Model):
    """A variable with its own consequence of a change."""

    value: TextOrSecret
    on_change: OnChange


EnvValue = Annotated[
    Annotated[Template, Tag("<text>")]
    | Annotated[SecretValue, Tag("<secret>")]
    | Annotated[EnvVar, Tag("<variable>")],
    Discriminator(_form),
]
EnvName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class File(Model):
    """A file written for the node: from `content`, from a `source` beside the manifest, or a secret."""

    path: Template
    content: Template | None = None
    source: Text | None = None
    secret: SecretRefText | None = None
    mode: FileMode = "0644"
    on_change: OnChange | None = None


class Limits(Model):
    """What a node may use at most."""

    memory: SizeB | None = None
    open_files: Annotated[int, Field(ge=1)] | None = None
    processes: Annotated[int, Field(ge=1)] | None = None


class Process(Model):
    """What runs: serves every substrate. `on_change` is what a change of command, env or files leads to.

    Relative file paths are relative to the node's folder (`{{ node.dir }}`).
    """

    command: Annotated[tuple[Template, ...], Field(min_length=1)]
    env: dict[EnvName, EnvValue] = {}
    files: tuple[File, ...] = ()
    user: Text | None = None
    limits: Limits = Limits()
    on_change: OnChange = "restart"
    reload_signal: Signal = "HUP"


class ProcessOverride(Model):
    """What a node changes of its group's process: command replaces, env and files merge by name and path."""

    command: Annotated[tuple[Template, ...], Field(min_length=1)] | None = None
    env: dict[EnvName, EnvValue] = {}
    files: tuple[File, ...] = ()
    user: Text | None = None
    limits: Limits | None = None


class Data(Model):
    """The node's data folder, relative to the node's own; kept on destroy when `retain`."""

    path: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$"), NO_TEMPLATE] = "data"
    retain: bool = True


class HttpProbe(Model):
    """GET path must answer `status` (default: any 2xx) within the timeout."""

    path: Template = "/"
    port: Port | None = None
    status: Annotated[int, Field(ge=100, le=599)] | None = None


class TcpProbe(Model):
    """The port must accept a connection."""

    port: Port | None = None


class CommandProbe(Model):
    """The command, run on the host, must exit 0."""

    command: Annotated[tuple[Template, ...], Field(min_length=1)]


class ContainerProbe(Model):
    """The image's own health check must say healthy (docker)."""


class Health(Model):
    """When a node counts as available: `success` probes in a row, then `min_ready` without a failure.

    `deadline` is how long a started node may take to get there. Without http, tcp or command a node is
    judged by running without a restart for `min_ready`.
    """

    http: HttpProbe | None = None
    tcp: TcpProbe | None = None
    command: CommandProbe | None = None
    container: ContainerProbe | None = None
    interval: DurationMs = 1_000
    timeout: DurationMs = 5_000
    success: Annotated[int, Field(ge=1)] = 1
    failure: Annotated[int, Field(ge=1)] = 3
    deadline: DurationMs = 60_000
    min_ready: DurationMs = 0


class DrainCall(Model):
    """A request to the node that begins its drain; it must answer `status` (default: any 2xx)."""

    method: Literal["POST", "PUT", "GET"] = "POST"
    path: Template
    port: Port | None = None
    status: Annotated[int, Field(ge=100, le=599)] | None = None


class Drained(Model):
    """What tells that a node has drained: a request that is answered well, or a command that exits 0."""

    http: HttpProbe | None = None
    command: CommandProbe | None = None


class Drain(Model):
    """How a node is asked to stop: the call where there is one, then the signal, and SIGKILL after the timeout.

    The call, and the wait for `until`, take at most `timeout`; then the signal follows all the same.
    """

    signal: Signal = "TERM"
    timeout: DurationMs = 30_000
    http: DrainCall | None = None
    command: CommandProbe | None = None
    until: Drained | None = None


class Hook(Model):
    """A program of the operator's at a moment of the rollout. Any exit status but 0, or its timeout, fails it.

    `where`: here, beside fleetctl, or on the node's host.
    """

    command: Annotated[tuple[Template, ...], Field(min_length=1)]
    where: Literal["here", "host"] = "here"
    timeout: DurationMs = 60_000


class Hooks(Model):
    """The moments: before and after the whole rollout; of each node that moves before it is drained, after its
    start, and, where a version of another format follows, between its stop and that version.
    """

    pre_rollout: tuple[Hook, ...] = ()
    pre_drain: tuple[Hook, ...] = ()
    backup: tuple[Hook, ...] = ()
    post_start: tuple[Hook, ...] = ()
    post_rollout: tuple[Hook, ...] = ()


class Canary(Model):
    """The first nodes of a rollout, alone: all of them must be healthy before the others start.

    They must stay healthy for `bake`; then the others follow, where `promotion` is manual only after a person
    has said `fleetctl promote`.
    """

    bake: DurationMs = 0
    count: Annotated[int, Field(ge=1)] = 1
    promotion: Literal["automatic", "manual"] = "automatic"


class Rollout(Model):
    """How a fleet moves. Percentages round down; one that rounds to zero is refused."""

    strategy: Literal["auto", "rolling", "full"] = "auto"
    max_unavailable: Bound = 1
    reserve: Bound = 0
    max_unavailable_per_host: Annotated[int, Field(ge=1)] | None = None
    max_unavailable_per_label: dict[LabelName, Annotated[int, Field(ge=1)]] = {}
    canary: Canary | None = None
    drain: Drain = Drain()
    hooks: Hooks = Hooks()
    max_failures: Annotated[int, Field(ge=0)] = 0
    progress_deadline: DurationMs = 600_000
    auto_revert: bool = False
    allow_rebuild: bool = False


class GroupBudget(Model):
    """A group's own budget, beside the fleet's."""

    max_unavailable: Bound
    reserve: Bound = 0


class Requirement(Model):
    """Another fleet that goes first, and the versions it must have when this one moves."""

    fleet: Name
    versions: Annotated[tuple[Version, ...], Field(min_length=1)]


class Node(Model):
    """A node given by name; what it does not say comes from its group."""

    name: Name
    host: Name | None = None
    address: Text | None = None
    port: Port | None = None
    labels: Labels = {}
    release: ReleasePin | None = None
    process: ProcessOverride | None = None


class Group(Model):
    """Nodes that share a substrate, placement and process: `count` of them, or `nodes` by name.

    `port` is the first port; node N of a counted group gets port+N, kept for life.
    """

    name: Name
    count: Annotated[int, Field(ge=0, le=NODES_MAX)] | None = None
    nodes: Annotated[tuple[Node, ...], Field(max_length=NODES_MAX)] | None = None
    substrate: Substrate
    hosts: tuple[Name, ...] = ("localhost",)
    port: Port | None = None
    labels: Labels = {}
    release: ReleasePin | None = None
    process: Process
    container: Container | None = None
    domain: Domain | None = None
    data: Data | None = None
    health: Health = Health()
    budget: GroupBudget | None = None


class Fleet(Model):
    """Nodes of one product under one trust domain, rolled as one."""

    api_version: Literal["fleetctl/v1"]
    kind: Literal["Fleet"]
    name: Name
    trust_domain: NonEmpty
    release: ReleasePin
    groups: Annotated[tuple[Group, ...], Field(min_length=1)]
    requires: tuple[Requirement, ...] = ()
    rollout: Rollout = Rollout()
