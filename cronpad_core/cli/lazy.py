"""The group of all commands: known by name and one line of help, imported when called."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from cronpad_core.cli.invocation import Invocation, graft
from cronpad_core.cli.output import show_error
from cronpad_core.domain.errors import CronpadError

__all__ = ["LazyGroup"]

_JOBS_FILES: Final = (".json", ".toml", ".yaml", ".yml", ".crontab")
_INTERRUPTED: Final = 130


class LazyGroup(click.Group):
    """``table`` maps a command's name to its module, which has a ``command``, and to its one line of help.

    ``cronpad FILE`` is ``cronpad run FILE``. Every ``CronpadError`` that comes up here is shown with its mend, and ends the
    process with the exit code that it carries.
    """

    def __init__(self, *, table: dict[str, tuple[str, str]], **more: Any) -> None:
        super().__init__(**more)
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order of the table."""
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the command of this name, or answers ``None``."""
        if cmd_name not in self._table:
            return None
        if cmd_name not in self.commands:
            command = importlib.import_module(self._table[cmd_name][0]).command
            self.add_command(graft(command), cmd_name)
        return self.commands[cmd_name]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, from the table alone: a page of help imports none of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self._table.items()])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """The command, or ``run`` for something that looks like a jobs file, or a refusal that says what was meant."""
        word = args[0]
        if word in self._table or word.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        if word.lower().endswith(_JOBS_FILES) or Path(word).exists():
            return "run", self.get_command(ctx, "run"), args
        _refuse(ctx, word, list(self._table))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[click.shell_completion.CompletionItem]:
        """Names and help from the table; nothing is imported for a list of names."""
        items = [
            click.shell_completion.CompletionItem(name, help=line)
            for name, (_, line) in self._table.items()
            if name.startswith(incomplete)
        ]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def main(  # type: ignore[override]  # click overloads it by the mode; nobody calls it positionally
        self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **more: Any
    ) -> Any:
        """Runs the command line; in standalone mode it ends with ``SystemExit``, otherwise answers the exit code."""
        invocation = more.setdefault("obj", Invocation()) or Invocation()
        more["obj"] = invocation
        try:
            answer = super().main(args, standalone_mode=False, **more)
            code = answer if isinstance(answer, int) and not isinstance(answer, bool) else 0
        except CronpadError as error:
            show_error(error, invocation)
            code = error.exit_code
        except click.ClickException as error:
            error.show()
            code = error.exit_code
        except (click.Abort, KeyboardInterrupt):
            code = _INTERRUPTED
        if standalone_mode:
            sys.exit(code)
        return code


def _refuse(ctx: click.Context, word: str, known: list[str]) -> NoReturn:
    near = get_close_matches(word, known, n=1, cutoff=0.6)
    meant = f" Did you mean '{near[0]}'?" if near else " There is no file of that name either."
    raise click.UsageError(f"No such command '{word}'.{meant}", ctx=ctx)
