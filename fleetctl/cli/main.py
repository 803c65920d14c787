"""The entry point: finds the command, and turns whatever ends it into text and an exit code.

The exit codes are the one table of `manifests.errors.ExitCode`. Usage errors exit 1, since 2 means
pending changes. Commands are imported when they are called: `--version` and `--help` load none.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from fleetctl.cli.invocation import Invocation, Terminated
from fleetctl.version import __version__
from manifests.errors import ExitCode, FleetctlError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS = {
    "validate": "Check manifests without looking at any host.",
    "fmt": "Lay manifests out in one style; keeps comments.",
    "pin": "Pin sources by digest in Release documents.",
    "plan": "Show what apply would do; touches nothing.",
    "apply": "Carry out a plan, after showing it and asking.",
    "review": "Show what a change of the manifests would do.",
    "show": "Print a saved plan.",
    "graph": "Draw a plan's steps and waves, as DOT or Mermaid.",
    "compat": "Show and ask the compatibility tables.",
    "status": "Versions, availability and health at one glance.",
    "logs": "Show what a node has said, and follow it.",
    "exec": "Run a command where a node lives.",
    "drift": "Show what changed outside of fleetctl.",
    "inventory": "Print what is really there, as a snapshot.",
    "doctor": "Check hosts, rights, clocks and state, with the fix.",
    "recover": "Settle a run that was cut off.",
    "pause": "Pause a rollout: nodes under way are finished.",
    "resume": "Go on with a paused rollout.",
    "promote": "Let a rollout go on after its canary.",
    "abort": "End a rollout where it stands.",
    "settle": "Say by hand what became of an effect.",
    "import": "Adopt what runs into a manifest and the ledger.",
    "move": "Give a node or a group another name.",
    "unlock": "Take a fleet's lock from a holder that is gone.",
    "audit": "Prove and export the journal.",
    "rollback": "Go back to what was last healthy before the newest rollout.",
    "cordon": "Keep nodes from being started on a host.",
    "uncordon": "Let nodes be started on a host again.",
    "drain": "Stop a host's nodes within the budget.",
    "destroy": "Take a fleet's nodes down, after asking for its name.",
    "runs": "List what was run on a fleet, and how it ended.",
    "gc": "Remove artifacts that nothing needs any more.",
    "state": "Move, verify, back up, restore and compact a state.",
    "store": "Find out whether an object store can keep a state.",
    "explain": "Say what a key of a manifest means.",
    "completion": "Print the completion script of a shell.",
    "schema": "Print the JSON Schema of the manifests, for editors.",
}


class LazyGroup(click.Group):
    """Knows its commands by name and one line of help, and imports the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"fleetctl.cli.commands.{cmd_name}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"There is no command {args[0]!r}.{meant}", ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[Any]]:
        """The commands by their names here; click would import each to ask whether it is hidden."""
        from click.shell_completion import CompletionItem

        named = [
            CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)
        ]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done or nothing to do; 1 error; 2 changes pending (plan --detailed-exitcode); "
    "3 refused; 4 the rollout failed and is settled; 5 an outcome is unknown or a run was cut off: "
    "fleetctl recover; 6 lock held; 7 plan stale; 8 paused; 130 or 143 interrupted and settled.",
)
@click.version_option(__version__, prog_name="fleetctl", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
@click.pass_obj
def cli(invocation: Invocation, debug: bool) -> None:
    """Plan and apply fleets of stateful nodes, within their availability budget."""
    invocation.debug = invocation.debug or debug


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and gives its exit code; nothing escapes but SystemExit of the interpreter's own."""
    # Pydantic asks every installed distribution for plugins when it is imported: a tenth of a small command's time.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    invocation = Invocation.of_process(os.environ)
    signal.signal(signal.SIGTERM, _terminated)
    _hand_down_default_signals()
    try:
        code = _run(invocation, list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:  # in the middle of saying why
        code = ExitCode.INTERRUPTED
    invocation.terminal.flush()
    # What is left lives until the process ends: collecting among it on the way out is time for nothing.
    gc.freeze()
    return int(code)


def _hand_down_default_signals() -> None:
    """Under `nohup` or a script's `&` some signals are ignored, and every node would inherit that for good.

    They stay without effect here; but what is handled, even by nothing, is the default again in children.
    """
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _without_effect)


def _without_effect(number: int, frame: FrameType | None) -> None:
    del number, frame


def _run(invocation: Invocation, argv: list[str]) -> int:
    try:
        result = cli.main(args=argv, prog_name="fleetctl", standalone_mode=False, obj=invocation)
        invocation.print_timings()
        return result if isinstance(result, int) else ExitCode.OK
    except (KeyboardInterrupt, click.Abort):
        invocation.terminal.say("\nInterrupted; nothing is under way.")
        return ExitCode.INTERRUPTED
    except Terminated:
        invocation.terminal.say("\nTerminated; nothing is under way.")
        return ExitCode.TERMINATED
    except click.ClickException as error:
        return _report_usage(invocation, error)
    except FleetctlError as error:
        from fleetctl.cli.views.diagnostics import render_error

        if invocation.debug:
            _print_traceback(invocation)
        invocation.terminal.say(render_error(error, invocation.terminal.err_paint))
        return error.exit_code
    except OSError as error:
        if invocation.debug:
            _print_traceback(invocation)
        where = f"{error.filename}: " if error.filename else ""
        _say_error(invocation, f"{where}{error.strerror or error}")
        return ExitCode.ERROR
    except Exception as error:  # noqa: BLE001 - the boundary: whatever else happens is our own mistake
        return _report_bug(invocation, error)


def _report_usage(invocation: Invocation, error: click.ClickException) -> int:
    _say_error(invocation, error.format_message())
    if isinstance(error, click.UsageError) and error.ctx is not None:
        invocation.terminal.say(
            f"{error.ctx.get_usage()}\nHint: {error.ctx.command_path} --help lists the options."
        )
    return ExitCode.ERROR


def _report_bug(invocation: Invocation, error: Exception) -> int:
    if invocation.debug:
        _print_traceback(invocation)
    _say_error(invocation, f"unexpected {type(error).__name__}: {error}")
    advice = "" if invocation.debug else "Run the same command with --debug to see where it happened, and "
    ending = "report it with this output" if invocation.debug else "report that output"
    invocation.terminal.say(
        f"This is a bug in fleetctl {__version__}, not in your manifests. {advice}{ending} to whoever "
        "you have fleetctl from.\nHint: if an apply was under way, `fleetctl recover` settles it."
    )
    return ExitCode.ERROR


def _say_error(invocation: Invocation, message: str) -> None:
    invocation.terminal.say(f"{invocation.terminal.err_paint('red bold', 'Error:')} {message}")


def _print_traceback(invocation: Invocation) -> None:
    import traceback

    invocation.terminal.say(traceback.format_exc().rstrip())


def _terminated(signum: int, frame: FrameType | None) -> NoReturn:
    del signum, frame
    raise Terminated
