"""The settings of a cronpad process: a file, the environment and flags, the later winning; unknown names are errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

from cronpad_core.config.document import Document
from cronpad_core.config.durations import DurationFault, parse_duration
from cronpad_core.config.formats import read_document
from cronpad_core.config.problems import Place, Problem, Problems, did_you_mean
from cronpad_core.config.setting_list import Setting, describe
from cronpad_core.config.table import Table, kind_of
from cronpad_core.domain.errors import ConfigurationError
from cronpad_core.domain.timing import DAY, SECOND, JsonValue, Millis

__all__ = ["Setting", "Settings", "describe", "load_settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every setting with its value; durations in milliseconds. ``plugins`` holds the ``[plugins.<name>]`` tables as they are."""

    queue_path: str | None = None
    workers_count: int = 64
    scheduler_claim_batch: int = 500
    scheduler_lease_duration_ms: Millis = 60 * SECOND
    scheduler_reconcile_interval_ms: Millis = 10 * SECOND
    scheduler_tick_interval_ms: Millis = 100
    scheduler_overdue_grace_ms: Millis = 30 * SECOND
    scheduler_lock_ttl_ms: Millis = 15 * SECOND
    scheduler_replay_rate: int = 20
    scheduler_max_running: int = 0
    results_flush_interval_ms: Millis = 0
    results_max_batch: int = 500
    shutdown_grace_ms: Millis = 30 * SECOND
    delivery: str = "durable"
    history_keep_for_ms: Millis = 90 * DAY
    history_keep_runs: int = 10_000
    history_keep_mb: int = 2_000
    plugins: Mapping[str, JsonValue] = field(default_factory=dict)


_BY_NAME: Final = {setting.name: setting for setting in describe()}
# Read elsewhere, or set by cronpad for its children: none of them is a misspelt setting.
_RESERVED: Final = frozenset(
    {
        "CRONPAD_STATE",
        "CRONPAD_CONFIG",
        "CRONPAD_STRICT_PLUGINS",
        "CRONPAD_JOB",
        "CRONPAD_RUN_ID",
        "CRONPAD_OCCURRENCE",
        "CRONPAD_ATTEMPT",
        "CRONPAD_SCHEDULED_AT",
        "CRONPAD_TRIGGER",
        "CRONPAD_FENCE",
        "CRONPAD_IDEMPOTENCY_KEY",
        "CRONPAD_TIMEZONE",
    }
)
# Kubernetes gives every pod such variables for a service that is called cronpad.
_SERVICE_LINK: Final = re.compile(r"CRONPAD_(?:SERVICE_(?:HOST|PORT)(?:_\w+)?|PORT(?:_[0-9]+_(?:TCP|UDP|SCTP)(?:_\w+)?)?)\Z")
_RESERVED_PREFIXES: Final = ("CRONPAD_PLUGINS_", "CRONPAD_SECRET_", "CRONPAD_LOG_")


def load_settings(path: Path | None, environ: Mapping[str, str], overrides: Mapping[str, JsonValue]) -> Settings:
    """The settings of the file, over them the environment's, over them ``overrides`` (flags, by setting name).

    Raises ``ConfigurationError`` with every problem in ``report``. ``None`` as an override is a flag that was not given.
    """
    problems = Problems()
    values: dict[str, object] = {}
    plugins: dict[str, JsonValue] = {}
    if path is not None:
        _read_file(path, problems, environ, values, plugins)
    for name, setting in _variables(environ, problems):
        _take(setting, environ[name], f"environment variable {name}", problems, values)
    for name, value in overrides.items():
        if value is None:
            continue
        if name not in _BY_NAME:
            problems.add(_unknown(name, f"flag {name}", _BY_NAME))
        else:
            _take(_BY_NAME[name], value, f"flag for {name}", problems, values)
    if problems.errors:
        raise ConfigurationError(problems.summary(), report=problems.report())
    return Settings(plugins=plugins, **values)  # type: ignore[arg-type]  # each value was checked against its setting


def _variables(environ: Mapping[str, str], problems: Problems) -> list[tuple[str, Setting]]:
    by_variable = {setting.variable: setting for setting in describe()}
    found: list[tuple[str, Setting]] = []
    for name in sorted(environ):
        if not name.startswith("CRONPAD_") or name in _RESERVED:
            continue
        if name.startswith(_RESERVED_PREFIXES) or _SERVICE_LINK.match(name):
            continue
        if name in by_variable:
            found.append((name, by_variable[name]))
        else:
            problems.add(_unknown(name, f"environment variable {name}", by_variable))
    return found


def _unknown(name: str, origin: str, known: Mapping[str, object]) -> Problem:
    return Problem(code="CP101", message=f'unknown setting "{name}"', place=Place(file=origin), hint=did_you_mean(name, known))


def _read_file(
    path: Path, problems: Problems, environ: Mapping[str, str], values: dict[str, object], plugins: dict[str, JsonValue]
) -> None:
    document = read_document(path, problems, environ=environ, empty=True)
    if document is None:
        return
    if not isinstance(document.data, dict):
        message = "the settings are a table"
        problems.add(Problem(code="CP120", message=message, place=document.locate(()), label=f"this is {kind_of(document.data)}"))
        return
    top = Table(document=document, path=(), data=document.data, problems=problems)
    groups = {name.partition(".")[0] for name in _BY_NAME if "." in name}
    top.unknown((*groups, *(name for name in _BY_NAME if "." not in name), "plugins"))
    for name in top.data:
        if name in groups:
            group = top.table(name)
            if group is not None:
                group.unknown([known.partition(".")[2] for known in _BY_NAME if known.startswith(f"{name}.")], what=name)
                for key, value in group.data.items():
                    _take_from_file(document, (name, key), value, problems, values)
        elif name == "plugins":
            table = top.table(name)
            plugins.update(table.data if table is not None else {})
        else:
            _take_from_file(document, (name,), top.data[name], problems, values)


def _take_from_file(
    document: Document, path: tuple[str, ...], value: JsonValue, problems: Problems, values: dict[str, object]
) -> None:
    setting = _BY_NAME.get(".".join(path))
    if setting is not None:
        _take(setting, value, document.locate(path) if _fault(setting, value) else Place(file=document.name), problems, values)


def _take(setting: Setting, value: JsonValue, origin: str | Place, problems: Problems, values: dict[str, object]) -> None:
    """Keeps the value as its attribute, or reports what is wrong with it."""
    fault = _fault(setting, value)
    if fault is None:
        values[setting.attribute] = _value(setting, value)
        return
    place = origin if isinstance(origin, Place) else Place(file=origin)
    code = "CP123" if setting.kind == "duration" else "CP120" if setting.kind == "count" else "CP125"
    problems.add(Problem(code=code, message=f"{setting.name}: {fault}", place=place, hint=f'the default is "{setting.default}"'))


def _fault(setting: Setting, value: JsonValue) -> str | None:
    """What is wrong with the value, or ``None``."""
    match setting.kind:
        case "duration":
            if not isinstance(value, str):
                return "a duration is a text with a unit: ms, s, m, h, d or w"
            try:
                length = parse_duration(value)
            except DurationFault as fault:
                return f"{fault}; did you mean {fault.suggestion}?" if fault.suggestion else str(fault)
            return f"at least {setting.low}ms" if length < setting.low else None
        case "count":
            number = _whole(value)
            if number is None:
                return "a whole number is needed"
            return None if setting.low <= number <= setting.high else f"{number} is not in {setting.low}-{setting.high}"
        case "path":
            return None if isinstance(value, str) and value and "\0" not in value else "a path is needed"
        case words:
            return None if value in words.split("|") else f"allowed: {words.replace('|', ', ')}"


def _value(setting: Setting, value: JsonValue) -> int | str:
    match setting.kind:
        case "duration":
            return parse_duration(cast("str", value))
        case "count":
            return cast("int", _whole(value))
        case _:
            return cast("str", value)


def _whole(value: JsonValue) -> int | None:
    """The number; the environment gives it as text."""
    if isinstance(value, str):
        text = value.strip()
        return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
