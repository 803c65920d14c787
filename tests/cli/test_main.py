"""The entry point as a subprocess: codes, laziness, and what it says when something is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fleetctl.cli.main import COMMANDS
from fleetctl.version import __version__

FLEETCTL = str(Path(sys.executable).with_name("fleetctl"))


def run(*args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [FLEETCTL, *args],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_version_is_data() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"fleetctl {__version__}\n", "")


@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_version_and_help_load_nothing_heavy(argument: str) -> None:
    program = (
        "import sys; from fleetctl.cli.main import main; code = main([sys.argv[1]]); "
        "heavy = {'pydantic', 'rich', 'yaml', 'jinja2', 'sqlite3', 'httpx', 'paramiko', 'planner.plan'}; "
        "print(code, sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, argument], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr.strip() == "0 []"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    done = run(command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: fleetctl {command} ")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["plam"], "Did you mean 'plan'?"),
        (["plan", "--no-such-option"], "No such option"),
        (["plan", "--format", "xml"], "'xml' is not one of"),
        (["plan", "--var", "x", "."], "--var NAME=VALUE"),
        (["plan", "--parallelism", "many"], "is not a valid integer"),
        (["show"], "Missing argument"),
    ],
)
def test_usage_errors_exit_1_and_say_what_is_there(args: list[str], said: str, tmp_path: Path) -> None:
    """2 means pending changes, so it cannot mean a typing mistake."""
    done = run(*args, cwd=tmp_path)
    assert done.returncode == 1
    assert said in done.stderr
    assert done.stdout == ""


def test_no_arguments_shows_the_help_and_is_an_error() -> None:
    done = run()
    assert done.returncode == 1
    assert "Usage: fleetctl" in done.stdout + done.stderr


def broken(tmp_path: Path, raises: str, *args: str) -> subprocess.CompletedProcess[str]:
    """fleetctl with a command that raises."""
    program = (
        "import sys, click, errno\n"
        "from fleetctl.cli import main\n"
        "@click.command()\n"
        f"def command(): raise {raises}\n"
        "main.cli.get_command = lambda ctx, name: command\n"
        "main.cli.resolve_command = lambda ctx, args: (args[0], command, args[1:])\n"
        "sys.exit(main.main(sys.argv[1:]))\n"
    )
    return subprocess.run(
        [sys.executable, "-c", program, *args, "plan"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_an_unexpected_exception_is_called_a_bug_without_a_traceback(tmp_path: Path) -> None:
    done = broken(tmp_path, "ZeroDivisionError('by 0')")
    assert done.returncode == 1
    assert "unexpected ZeroDivisionError: by 0" in done.stderr
    assert "This is a bug in fleetctl" in done.stderr
    assert "--debug" in done.stderr
    assert "Traceback" not in done.stderr


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    done = broken(tmp_path, "ZeroDivisionError('by 0')", "--debug")
    assert done.returncode == 1
    assert "Traceback (most recent call last)" in done.stderr


def test_an_operating_system_error_is_no_bug(tmp_path: Path) -> None:
    done = broken(tmp_path, "OSError(errno.ENOSPC, 'No space left on device', '/state')")
    assert (done.returncode, done.stderr) == (1, "Error: /state: No space left on device\n")


def test_a_closed_pipe_is_quiet() -> None:
    """`fleetctl schema | head -1` ends without a complaint."""
    shell = f"{FLEETCTL} --help 2>err | true; cat err; rm err"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("", "")
