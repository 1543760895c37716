"""``cronpad completion``."""

from __future__ import annotations

import os
from pathlib import PurePath

import click
from click.shell_completion import get_completion_class

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.output import Output

__all__ = ["command"]

_SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS), required=False)
@click.pass_context
def command(context: click.Context, shell: str | None) -> None:
    """The script that completes cronpad's commands in SHELL (your login shell if absent).

    \b
    bash:  eval "$(cronpad completion bash)"       in ~/.bashrc
    zsh:   eval "$(cronpad completion zsh)"        in ~/.zshrc
    fish:  cronpad completion fish > ~/.config/fish/completions/cronpad.fish
    """
    invocation = context.find_object(Invocation) or Invocation()
    wanted = shell or PurePath(invocation.environ.get("SHELL", "")).name
    kind = get_completion_class(wanted)
    if wanted not in _SHELLS or kind is None:
        raise click.UsageError(f"cannot tell which shell you use; name one of {', '.join(_SHELLS)}", ctx=context)
    complete = kind(context.find_root().command, {}, "cronpad", "_CRONPAD_COMPLETE")
    # Not complete.source(): for bash it starts a bash to ask for its version.
    Output(invocation).raw(complete.source_template % complete.source_vars() + os.linesep)
