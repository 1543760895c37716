"""Writes docs/reference/commands.md from the commands themselves: ``nox -s reference``."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator

import click
import house

from cronpad_core.cli.main import cli

HEAD = """# Commands

`cronpad FILE` is `cronpad run FILE`. Results go to standard output, messages to standard error; every command ends with
one of the [exit codes](exit-codes.md). With `--json`, a command prints one document `{"schema": "cronpad.<what>/1",
"items": […]}`, times in RFC 3339 with an offset. The options of `cronpad` itself may stand before or after a command's name.
"""


def _paragraphs(text: str) -> Iterator[str]:
    """Wrapped, except for what click is told to leave alone."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b"):
            yield "```\n" + paragraph.removeprefix("\b").strip("\n") + "\n```"
        else:
            yield "\n".join(textwrap.wrap(" ".join(paragraph.split()), 130, break_on_hyphens=False))


def _value(option: click.Option) -> str:
    if option.is_flag or option.count:
        return ""
    words = "|".join(option.type.choices) if isinstance(option.type, click.Choice) else option.type.name.upper()
    return " " + (option.metavar or words.replace("INTEGER RANGE", "NUMBER").replace("INTEGER", "NUMBER"))


def _row(option: click.Option) -> str:
    names = ", ".join([*option.opts, *option.secondary_opts]) + _value(option)
    default = f" (default {option.default})" if option.show_default and not option.is_flag else ""
    meaning = " ".join((option.help or "").split()).rstrip(".")
    return "| `{}` | {} |".format(names.replace("|", "\\|"), (meaning + default).replace("|", "\\|"))


def _section(path: str, command: click.Command, depth: int) -> Iterator[str]:
    yield f"{'#' * depth} `{path}`\n"
    context = click.Context(command, info_name=path)
    if depth > 2 or path != "cronpad":
        yield f"```\n{path} {' '.join(command.collect_usage_pieces(context))}\n```\n"
    for paragraph in _paragraphs(command.help or ""):
        yield paragraph + "\n"
    options = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
    if options:
        yield "\n".join(["| option | meaning |", "|---|---|", *map(_row, options)]) + "\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _section(f"{path} {name}", below, depth + (path != "cronpad"))


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *_section("cronpad", cli, 2)])


if __name__ == "__main__":
    (house.REFERENCE / "commands.md").write_text(page(), encoding="utf-8")
