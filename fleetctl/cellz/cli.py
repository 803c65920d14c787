"""`cellz serve | export CELL | import CELL | verify CELL`."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from fleetctl.cellz.errors import CellzError, NotFound
from fleetctl.cellz.settings import Settings, load, unknown
from manifests.errors import FleetctlError


@click.group()
@click.version_option(package_name="fleetctl", prog_name="cellz")
def cli() -> None:
    """cellz: the agent state and scheduling daemon."""


def _setting_options(command: Any) -> Any:
    for each in reversed(fields(Settings)):
        help_ = f"{each.metadata['help']} [CELLZ_{each.name.upper()}; default: {each.metadata['default'] or 'empty'}]"
        command = click.option("--" + each.name.replace("_", "-"), each.name, default=None, help=help_)(
            command
        )
    return command


@cli.command()
@_setting_options
def serve(**flags: str | None) -> None:
    """Serve until SIGTERM; every setting is a flag or a CELLZ_* variable, and checked before the start."""
    settings = load(os.environ, flags)
    for name in unknown(os.environ):
        click.echo(f"warning: {name} is no setting of cellz", err=True)
    from fleetctl.cellz.serve import serve as run

    raise SystemExit(run(settings))


_data_dir = click.option("--data-dir", default=None, help="Folder of the cells' databases [CELLZ_DATA_DIR].")


def _path(cell: str, data_dir: str | None) -> Path:
    from fleetctl.cellz.words import cell_id

    settings = load(os.environ, {"data_dir": data_dir})
    return settings.data_dir / f"{cell_id(cell)}.db"


def _open(cell: str, data_dir: str | None) -> Any:
    from fleetctl.cellz.database import CellDb

    path = _path(cell, data_dir)
    if not path.exists():
        raise NotFound(f"there is no database of cell '{cell}' at {path}")
    return CellDb(cell, path)


@cli.command("export")
@click.argument("cell")
@_data_dir
def export_(cell: str, data_dir: str | None) -> None:
    """Print CELL of this node's data folder as JSON, the document of GET .../export."""
    from fleetctl.cellz.export import export_json

    with closing(_open(cell, data_dir)) as db:
        click.echo(export_json(db))


@cli.command("import")
@click.argument("cell")
@click.argument("document", type=click.File("rb"), default="-")
@_data_dir
def import_(cell: str, document: Any, data_dir: str | None) -> None:
    """Make CELL in this node's data folder from DOCUMENT (or stdin), an export; the node must not have it."""
    import orjson

    from fleetctl.cellz.export import import_document
    from fleetctl.cellz.serve import data_folder

    path = _path(cell, data_dir)
    with data_folder(path.parent):
        if path.exists():
            raise CellzError(f"cell '{cell}' exists at {path}", hint="import under another name")
        try:
            data = orjson.loads(document.read())
        except orjson.JSONDecodeError as error:
            raise CellzError(f"{document.name} is not JSON: {error}") from error
        db = import_document(cell, path, data)
        click.echo(f"imported {db.sequence} events into {path}", err=True)
        db.close()


@cli.command()
@click.argument("cell")
@_data_dir
def verify(cell: str, data_dir: str | None) -> None:
    """Check CELL: SQLite's integrity, the log without gaps, messages as the events say. Exit 1 if not."""
    import sqlite3

    from fleetctl.cellz.export import verify as check

    try:
        with closing(_open(cell, data_dir)) as db:
            found = check(db)
            line = f"cell '{cell}': sequence {db.sequence}, branch {db.branch}, epoch {db.epoch}"
    except sqlite3.DatabaseError as error:
        found, line = [f"the database is damaged: {error}"], f"cell '{cell}'"
    for each in found:
        click.echo(f"{line}: {each}", err=True)
    if found:
        raise SystemExit(1)
    click.echo(f"{line}: sound")


def main() -> None:
    """Run the command line; an error raised on purpose is one line on stderr and its exit code."""
    try:
        cli(standalone_mode=False)
    except click.exceptions.Abort:
        raise SystemExit(130) from None
    except click.ClickException as error:
        error.show()
        raise SystemExit(1) from None
    except FleetctlError as error:
        click.echo(f"error: {error.message}", err=True)
        if error.hint:
            click.echo(f"hint: {error.hint}", err=True)
        raise SystemExit(int(error.exit_code)) from None


if __name__ == "__main__":
    main()
    sys.exit(0)
