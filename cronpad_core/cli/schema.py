"""``cronpad schema``."""

from __future__ import annotations

import json

import click

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.output import Output
from cronpad_core.cli.plugin import host_of

__all__ = ["command"]


@click.command()
@click.pass_obj
def command(invocation: Invocation) -> None:
    """Print the JSON Schema of jobs files, with the settings of all installed plugins.

    Editors complete and check a jobs file with it. The schema is JSON with and without --json. In TOML, name the file of
    the schema in the first line: '#:schema jobs.schema.json'; in YAML: '# yaml-language-server: $schema=jobs.schema.json'.
    """
    from cronpad_core.config.file_schema import file_schema

    out = Output(invocation)
    registry = host_of(invocation, out).registry
    schema = file_schema(registry.sink_models(), registry.misfire_models(), registry.emitter_models())
    out.raw(json.dumps(schema, indent=2))
