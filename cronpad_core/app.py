"""The second door: what a program needs that builds a cronpad of its own, beside :mod:`cronpad_core.api`.

A web interface, an embedding program and the test kit come in here; plugins do not.
"""

from __future__ import annotations

from cronpad_core.config.jobsfile import LoadedFiles, load_jobs
from cronpad_core.config.settings import Settings, load_settings
from cronpad_core.control.apply import Applied, Change, ChangeKind, Declared, apply
from cronpad_core.control.queries import all_jobs, find_job, find_run, list_runs
from cronpad_core.domain.tuning import Tuning
from cronpad_core.host.calls import run_in_thread
from cronpad_core.host.loader import PluginHost, load_plugins
from cronpad_core.runtime.clock import SystemClock
from cronpad_core.runtime.compose import Engine, Parts, compose
from cronpad_core.runtime.lifecycle import Listener, Runner, RunnerOptions, tuning_of
from cronpad_core.runtime.loops import Loops
from cronpad_core.runtime.once import OnceResult, run_once
from cronpad_core.runtime.schedules import ScheduleBook, read_schedule
from cronpad_core.runtime.state import open_storage, state_url

__all__ = [
    "Applied",
    "Change",
    "ChangeKind",
    "Declared",
    "Engine",
    "Listener",
    "LoadedFiles",
    "Loops",
    "OnceResult",
    "Parts",
    "PluginHost",
    "Runner",
    "RunnerOptions",
    "ScheduleBook",
    "Settings",
    "SystemClock",
    "Tuning",
    "all_jobs",
    "apply",
    "compose",
    "find_job",
    "find_run",
    "list_runs",
    "load_jobs",
    "load_plugins",
    "load_settings",
    "open_storage",
    "read_schedule",
    "run_in_thread",
    "run_once",
    "state_url",
    "tuning_of",
]
