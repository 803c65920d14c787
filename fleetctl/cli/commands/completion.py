"""fleetctl completion: the script that teaches a shell to complete fleetctl's words."""

from __future__ import annotations

import click

from fleetctl.cli import options
from fleetctl.cli.invocation import Invocation
from manifests.errors import ExitCode

# Asked through this variable; click names it after the program.
VARIABLE = "_FLEETCTL_COMPLETE"
_PLACES = {
    "bash": "~/.local/share/bash-completion/completions/fleetctl",
    "zsh": "a folder of $fpath, as _fleetctl",
    "fish": "~/.config/fish/completions/fleetctl.fish",
}


@click.command(short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(list(_PLACES)))
@options.debug_option
@click.pass_obj
def command(invocation: Invocation, shell: str) -> int:
    """Print the script that completes fleetctl's commands, options, files, and the names in manifests.

    bash: `eval "$(fleetctl completion bash)"` in ~/.bashrc; zsh: the same with zsh in ~/.zshrc, after compinit;
    fish: `fleetctl completion fish | source` in its config. Fleets, nodes, hosts and versions come from the manifests
    that the command line names, or those of the current folder.
    """
    from click.shell_completion import ShellComplete, get_completion_class

    from fleetctl.cli.main import cli

    made = get_completion_class(shell)
    assert made is not None, "click knows the three shells"
    # The general method: that for bash starts one to ask for its version.
    script = ShellComplete.source(made(cli, {}, "fleetctl", VARIABLE))
    invocation.terminal.data(script)
    if invocation.terminal.interactive:
        invocation.terminal.say(f"# To keep it, write it to {_PLACES[shell]}")
    return ExitCode.OK
