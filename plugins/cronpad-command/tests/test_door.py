"""The door: what is registered, and that the sink knows its spawner by the port alone."""

from __future__ import annotations

import asyncio
import os
import pkgutil
import subprocess
import sys

import pluggy
import pytest

import cronpad_command
from cronpad_command import plugin
from cronpad_command.settings import Settings
from cronpad_command.sink import CommandSink
from cronpad_core.api import Delivered, Ended, Failed, SpawnError, StreamCapture

MODULES = sorted(module.name for module in pkgutil.iter_modules(cronpad_command.__path__, "cronpad_command."))


def test_the_plugin_registers_a_sink_and_an_emitter():
    """pluggy finds the hooks, and the types say what a type must say."""
    manager = pluggy.PluginManager("cronpad")
    manager.register(plugin)
    hooks = {hook.name for hook in manager.get_hookcallers(plugin) or []}
    assert hooks == {"cronpad_register_sinks", "cronpad_register_alert_emitters"}
    assert plugin.cronpad_register_sinks() == [CommandSink]
    assert (CommandSink.name, CommandSink.api, CommandSink.Settings) == ("command", 1, Settings)
    assert isinstance(CommandSink.capabilities, frozenset)


@pytest.mark.parametrize("module", MODULES)
def test_every_module_imports_alone_and_does_nothing(module):
    """In a fresh interpreter: no thread, no new descriptor, no child, nothing printed."""
    program = (
        "import os, threading; before = len(os.listdir('/proc/self/fd'));"
        f"import {module};"
        "assert threading.active_count() == 1;"
        "assert len(os.listdir('/proc/self/fd')) == before"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, env=env, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


class ScriptedChild:
    """A child that is over already."""

    pid = 1

    def __init__(self, ended):
        self._ended = ended

    async def wait(self):
        return self._ended

    def terminate(self):
        raise AssertionError("nobody asked for this")

    kill = terminate


class ScriptedSpawner:
    """A spawner that starts nothing, and remembers what it was asked."""

    def __init__(self, answer):
        self.answer = answer
        self.requests = []

    async def spawn(self, request):
        self.requests.append(request)
        if isinstance(self.answer, SpawnError):
            raise self.answer
        return ScriptedChild(self.answer)


def _deliver(bench, spawner, command, **changes):
    async def one():
        sink = bench.sink(spawner)
        try:
            return await sink.deliver(bench.delivery(command, **changes))
        finally:
            await sink.close()

    return asyncio.run(one())


def test_any_spawner_will_do(bench):
    """The sink asks the port for a process and believes its answer."""
    output = (StreamCapture(name="stdout", total=2, head=b"hi"),)
    spawner = ScriptedSpawner(Ended(exit_code=0, signal=None, output=output))
    outcome = _deliver(bench, spawner, "echo hi", settings={"output_head": 10, "output_tail": 20, "cwd": "/srv"})
    assert outcome == Delivered(exit_code=0, output=output)
    (request,) = spawner.requests
    assert list(request.argv) == ["/bin/sh", "-c", "echo hi"]
    assert (request.cwd, request.keep_head, request.keep_tail, request.linger_ms) == ("/srv", 10, 20, 1_000)


def test_a_list_goes_without_a_shell(bench):
    """A list is started word for word."""
    spawner = ScriptedSpawner(Ended(exit_code=0, signal=None, output=()))
    _deliver(bench, spawner, ["echo", "$HOME; true"])
    assert list(spawner.requests[0].argv) == ["echo", "$HOME; true"]


def test_a_signal_without_a_name_is_still_told(bench):
    """Real-time signals have numbers only."""
    outcome = _deliver(bench, ScriptedSpawner(Ended(exit_code=None, signal=40, output=())), "true")
    assert (outcome.reason, outcome.exit_code) == ("killed by signal 40", 168)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            SpawnError("exec: x: command not found", code=127),
            Failed(reason="exec: x: command not found", exit_code=127, retryable=False, undelivered=True),
        ),
        (
            SpawnError("resource: EAGAIN: no room", code=126, resource=True),
            Failed(reason="resource: EAGAIN: no room", retryable=True, undelivered=True),
        ),
    ],
    ids=["exec", "resource"],
)
def test_a_spawn_error_is_an_answer(bench, error, expected):
    """What could not be started was not delivered; only a lack of room passes."""
    assert _deliver(bench, ScriptedSpawner(error), ["x"]) == expected


def test_foreign_settings_are_a_mistake_of_the_host(bench):
    """A delivery with another sink's settings is refused loudly."""

    async def one():
        delivery = bench.delivery("true")
        object.__setattr__(delivery, "settings", {"command": "true"})
        await bench.sink().deliver(delivery)

    with pytest.raises(TypeError, match="settings of a command"):
        asyncio.run(one())
