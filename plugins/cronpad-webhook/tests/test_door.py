"""The door: what is registered, that modules do nothing when imported, and that there is one place that builds clients."""

from __future__ import annotations

import ast
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pluggy
import pytest

import cronpad_webhook
from cronpad_webhook import plugin
from cronpad_webhook.settings import Settings
from cronpad_webhook.sink import WebhookSink

PACKAGE = Path(cronpad_webhook.__file__).parent
MODULES = sorted(module.name for module in pkgutil.iter_modules(cronpad_webhook.__path__, "cronpad_webhook."))


def test_the_plugin_registers_a_sink_and_an_emitter():
    """pluggy finds the hook, and the type says what a type must say."""
    manager = pluggy.PluginManager("cronpad")
    manager.register(plugin)
    hooks = {hook.name for hook in manager.get_hookcallers(plugin) or []}
    assert hooks == {"cronpad_register_sinks", "cronpad_register_alert_emitters"}
    assert plugin.cronpad_register_sinks() == [WebhookSink]
    assert (WebhookSink.name, WebhookSink.api, WebhookSink.Settings) == ("webhook", 1, Settings)


@pytest.mark.parametrize("module", MODULES)
def test_every_module_imports_alone_and_does_nothing(module):
    """In a fresh interpreter: no thread, no new descriptor, nothing printed."""
    program = (
        "import os, threading; before = len(os.listdir('/proc/self/fd'));"
        f"import {module};"
        "assert threading.active_count() == 1;"
        "assert len(os.listdir('/proc/self/fd')) == before"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_reading_a_jobs_file_needs_no_http_library():
    """The module that registers the sink, and so every check of a jobs file, imports neither httpx nor aiohttp."""
    program = "import sys, cronpad_webhook.plugin; print(sorted({'httpx', 'aiohttp', 'limits'} & set(sys.modules)))"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, check=True)
    assert run.stdout == "[]\n"


def test_one_place_builds_clients():
    """Nothing but ``clients.py`` names a client, a transport, a session or a connector, or opens URLs in another way."""
    builders = {"AsyncClient", "Client", "AsyncHTTPTransport", "HTTPTransport", "AiohttpTransport", "HttpxAiohttpClient",
                "ClientSession", "TCPConnector", "UnixConnector", "urlopen", "HTTPConnection", "HTTPSConnection",
                "create_connection", "open_connection"}  # fmt: skip
    shortcuts = {"get", "post", "put", "patch", "delete", "head", "request", "stream"}
    found = {
        path.name
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Attribute) and node.attr in builders)
        or (isinstance(node, ast.Name) and node.id in builders)
        or (isinstance(node, ast.Attribute) and node.attr in shortcuts and ast.unparse(node.value) in ("httpx", "aiohttp"))
    }
    assert found == {"clients.py"}
