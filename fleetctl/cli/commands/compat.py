"""fleetctl compat: what the tables say of a product's versions, those that ship and those of the manifests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleetctl.cli import completion, options
from fleetctl.cli.invocation import Invocation
from manifests.errors import ExitCode, FleetctlError

if TYPE_CHECKING:
    from manifests.manifest import Manifests


class NoTable(FleetctlError):
    """Nothing declares a transition of this product."""

    code = "compat.no-table"


@click.group(short_help="Show and ask the compatibility tables.")
def command() -> None:
    """Show the compatibility tables of a product, or ask them about one transition."""


@command.command("show")
@click.argument("product", metavar="PRODUCT", shell_complete=completion.products)
@options.manifest_options
@options.format_option("human", "json")
@click.pass_obj
def show(
    invocation: Invocation,
    product: str,
    paths: tuple[Path, ...],
    files: tuple[Path, ...],
    variables: tuple[str, ...],
    var_files: tuple[Path, ...],
    form: str,
) -> int:
    """Print every pair of PRODUCT that the manifests of PATHS and the shipped table declare, with place and source."""
    from fleetctl.cli.views import compat_text

    manifests = _load(invocation, product, paths, files, variables, var_files)
    if form == "json":
        rules = [r.model_dump(mode="json") for d in _documents(manifests, product) for r in d.environment]
        _json(
            invocation,
            {"product": product, "pairs": compat_text.rows(manifests, product), "environment": rules},
        )
    else:
        invocation.terminal.data(compat_text.render(manifests, product))
    return ExitCode.OK


@command.command("check")
@click.argument("old", metavar="FROM", shell_complete=completion.versions)
@click.argument("new", metavar="TO", shell_complete=completion.versions)
@click.option(
    "--product",
    default=None,
    metavar="NAME",
    shell_complete=completion.products,
    help="Which product, where the manifests have several.",
)
@options.manifest_options
@options.format_option("human", "json")
@click.pass_obj
def check(
    invocation: Invocation,
    old: str,
    new: str,
    product: str | None,
    paths: tuple[Path, ...],
    files: tuple[Path, ...],
    variables: tuple[str, ...],
    var_files: tuple[Path, ...],
    form: str,
) -> int:
    """Say whether the tables let a fleet go from version FROM to version TO, how, and where that is declared.

    Exit 0 when the transition is declared rolling or full, 3 when it is refused or not declared; then the
    declared path is shown, if there is one. A pair with a condition is shown with it: whether the condition
    holds, `fleetctl plan` says.
    """
    from fleetctl.cli.views import compat_text

    manifests = _load(invocation, product, paths, files, variables, var_files)
    name = product or _only(manifests)
    answer = compat_text.answer(manifests, name, old, new)
    if form == "json":
        _json(invocation, answer)
    else:
        invocation.terminal.data(compat_text.render_answer(answer))
    return ExitCode.OK if answer["mode"] in ("rolling", "full", "same") else ExitCode.REFUSED


def _load(
    invocation: Invocation,
    product: str | None,
    paths: tuple[Path, ...],
    files: tuple[Path, ...],
    variables: tuple[str, ...],
    var_files: tuple[Path, ...],
) -> Manifests:
    """The manifests, where there are any; a product that ships with its table needs none."""
    from fleetctl.cli import look
    from manifests.shipped import shipped

    named = bool(paths or files)
    if not named and product is not None and not _has_manifests(Path()):
        found = shipped(product)
    else:
        found = look.load(invocation, options.sources(paths, files, variables, var_files))
        if product is not None and not _documents(found, product):
            found = shipped(product)
    if product is not None and not _documents(found, product):
        raise NoTable(
            f"no pair of {product} is declared",
            hint=f"declare one in a document of kind Compatibility with product: {product}",
        )
    return found


def _has_manifests(folder: Path) -> bool:
    return any(p.suffix in options.MANIFEST_SUFFIXES for p in folder.iterdir())


def _documents(manifests: Manifests, product: str) -> list[Any]:
    return [d for d in manifests.compatibility if d.product == product]


def _only(manifests: Manifests) -> str:
    products = sorted({d.product for d in manifests.compatibility})
    if len(products) == 1:
        return products[0]
    if not products:
        raise NoTable("no pair is declared", hint="name a product that ships with its table: --product celld")
    raise NoTable(
        f"pairs of several products are declared: {', '.join(products)}", hint="name one: --product NAME"
    )


def _json(invocation: Invocation, value: dict[str, Any]) -> None:
    import json

    invocation.terminal.data(json.dumps({"format_version": "1.0"} | value, ensure_ascii=False, indent=2))
