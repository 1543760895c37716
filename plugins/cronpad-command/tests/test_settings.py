"""What a jobs file may say of a command, and what it is told otherwise."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from cronpad_command.host_settings import host_settings
from cronpad_command.machine import default_spawner
from cronpad_command.nursery_spawner import NurserySpawner
from cronpad_command.orders import lock_file
from cronpad_command.settings import Settings
from cronpad_command.spawn import AsyncioSpawner
from cronpad_core.api import PluginError, SinkContext


def test_a_command_is_all_that_is_needed():
    """Everything but the command has a default."""
    settings = Settings(command="true")
    assert (settings.env, settings.cwd, settings.env_mode) == ({}, None, "inherit")
    assert (settings.output_head, settings.output_tail, settings.output_linger) == (65_536, 65_536, timedelta(seconds=1))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"command": ""}, "give a shell line such as"),
        ({"command": "  \n"}, "give a shell line such as"),
        ({"command": []}, "empty list"),
        ({"command": [""]}, "the program, is empty"),
        ({"command": ["a", "\0"]}, "NUL"),
        ({"command": 3}, "string"),
        ({}, "Field required"),
        ({"command": "x", "cwd": "relative/dir"}, "must be absolute"),
        ({"command": "x", "env": {"A=B": "1"}}, "cannot be the name"),
        ({"command": "x", "env": {"": "1"}}, "cannot be the name"),
        ({"command": "x", "env": {"A": "\0"}}, "NUL"),
        ({"command": "x", "env": {"CRONPAD_RUN_ID": "1"}}, "set by cronpad"),
        ({"command": "x", "env_mode": "dirty"}, "inherit"),
        ({"command": "x", "output_head": -1}, "greater than or equal"),
        ({"command": "x", "output_tail": 1 << 40}, "less than or equal"),
        ({"command": "x", "output_linger": "2h"}, "output_linger"),
        ({"command": "x", "output_linger": "5m"}, "less than or equal"),
        ({"command": "x", "comand": "y"}, "Extra inputs are not permitted"),
    ],
)
def test_a_mistake_is_refused_with_a_hint(given, said):
    """Each mistake has a message that says what would be right."""
    with pytest.raises(ValidationError) as refused:
        Settings.model_validate(given)
    assert said in str(refused.value)


@pytest.mark.parametrize(("given", "read"), [("500ms", 0.5), ("1s", 1), ("1.5 s", 1.5), ("1m", 60), (0, 0), (2, 2)])
def test_a_linger_is_a_text_with_a_unit_or_seconds(given, read):
    """Durations are written as everywhere in cronpad."""
    assert Settings(command="true", output_linger=given).output_linger == timedelta(seconds=read)


def test_the_schema_can_be_drawn():
    """Editors complete the settings from a JSON Schema, each key with a description."""
    schema = Settings.model_json_schema()
    assert schema["additionalProperties"] is False
    assert all("description" in key for key in schema["properties"].values())


def test_a_nursery_is_the_default_and_can_be_refused():
    """``[plugins.command]`` has one setting, and a mistake in it is named."""
    assert host_settings({}).nursery is True
    assert host_settings({"nursery": False}).nursery is False
    with pytest.raises(PluginError, match=r"\[plugins.command\] nurserry: .*; its settings are: nursery"):
        host_settings({"nurserry": False})


@pytest.mark.parametrize(
    ("platform", "settings", "kind"),
    [("linux", {}, NurserySpawner), ("linux", {"nursery": False}, AsyncioSpawner), ("darwin", {}, AsyncioSpawner)],
)
def test_the_machine_and_the_settings_choose_what_starts_commands(monkeypatch, platform, settings, kind):
    """A nursery on Linux, unless it is refused; elsewhere the runner itself."""
    monkeypatch.setattr(sys, "platform", platform)
    assert type(default_spawner(SinkContext(settings=settings, environ={}, secret=str))) is kind


def test_the_locks_of_a_state_are_in_its_directory(tmp_path):
    """Runners of one state share a file wherever they were started; others have another one, and a state in memory has none."""
    assert lock_file(f"sqlite://{tmp_path}", {}) == lock_file(str(tmp_path), {}) == str(tmp_path / "cronpad-runs.lock")
    elsewhere = [lock_file(f"postgresql://{name}", {"XDG_RUNTIME_DIR": str(tmp_path)}) for name in ("a/b", "a/b", "a/c")]
    assert elsewhere[0] == elsewhere[1] != elsewhere[2]
    assert Path(elsewhere[0]).parent == tmp_path
    assert lock_file("memory://", {}) == lock_file("", {}) == ""
