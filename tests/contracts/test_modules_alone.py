"""Every module imports alone, in an interpreter of its own, and importing it does nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import house
import pytest

WATCH = """
import importlib, importlib.metadata, json, os, sys, threading

own, module = sys.argv[1].split(os.pathsep), sys.argv[2]
deeds = []

def whose():
    frame = sys._getframe(3)
    if frame.f_code.co_filename.startswith("<frozen importlib"):
        return "stranger"  # the import itself: it reads sources and keeps compiled ones
    while frame is not None:
        name = frame.f_code.co_filename
        if "site-packages" in name:
            return "stranger"
        if any(name.startswith(folder + os.sep) for folder in own):
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return "stranger"

def note(deed):
    who = whose()
    if who != "stranger":
        deeds.append(f"{deed} ({who})")

DEEDS = ("subprocess.Popen", "os.fork", "os.mkdir", "os.remove", "os.rename", "sqlite3.connect", "_thread.start_new_thread",
         "signal.pthread_kill")

def watch(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        note(f"opens {os.fsdecode(arguments[0])}")
    elif event in DEEDS or event.startswith("socket."):
        note(event)

def told(name, real):
    def ask(*arguments, **named):
        note(f"asks importlib.metadata.{name}")
        return real(*arguments, **named)
    return ask

for name in ("entry_points", "distributions", "distribution", "version", "metadata"):
    setattr(importlib.metadata, name, told(name, getattr(importlib.metadata, name)))
sys.addaudithook(watch)
importlib.import_module(module)
if threading.active_count() != 1:
    deeds.append("leaves a thread")
print(json.dumps(deeds))
"""

pytestmark = pytest.mark.timeout(300)  # the first test waits for all interpreters

MODULES = house.shipped_modules()


def _import_alone(module: str) -> tuple[str, int, str, str]:
    done = subprocess.run(
        [sys.executable, "-P", "-W", "error", "-c", WATCH, house.source_path(), module],
        env={**os.environ, "PYTHONPATH": house.source_path(), "PYTHONDONTWRITEBYTECODE": ""},
        cwd=house.DOCS,
        capture_output=True,
        text=True,
    )
    return module, done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def alone() -> dict[str, tuple[int, str, str]]:
    """For every module: exit code, deeds and errors of an interpreter that imported nothing else."""
    with ThreadPoolExecutor(max(2, os.cpu_count() or 2)) as pool:
        return {module: (code, out, err) for module, code, out, err in pool.map(_import_alone, MODULES)}


@pytest.mark.parametrize("module", MODULES)
def test_module_imports_alone_and_does_nothing(module: str, alone: dict[str, tuple[int, str, str]]) -> None:
    """The import succeeds without any other having happened, opens no file, starts nothing, and looks for no plugin."""
    code, out, err = alone[module]
    assert code == 0, err
    assert json.loads(out) == []
