"""Whether a plugin is as it should be: loaded, hooks that are called, settings that can be trusted, promises that are proved."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, cast
from xml.etree import ElementTree

from cronpad_core.config.plugin_settings import SECRET_KEY
from cronpad_core.domain.timing import JsonValue
from cronpad_core.host import PluginHost, PluginRecord, PluginState
from cronpad_core.host.calls import said_of
from cronpad_core.host.leaks import shows
from cronpad_core.host.registry import Registry

__all__ = ["Answer", "Finding", "check_plugin"]

_SUITE_LIMIT_S: Final = 900.0
_SUITES: Final = {
    "sink": ("SinkSuite",),
    "misfire policy": ("MisfirePolicySuite",),
    "alert emitter": ("AlertEmitterSuite",),
    "storage": ("QueueStoreSuite", "CatalogSuite", "HistorySuite"),
}


class Answer(StrEnum):
    """``UNKNOWN``: it could not be looked at, and ``text`` says what that takes."""

    GOOD = "good"
    BAD = "bad"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at: ``check`` is a stable word, ``text`` says what was found."""

    check: str
    answer: Answer
    text: str


def check_plugin(host: PluginHost, plugin: PluginRecord, project: Path | None, environ: Mapping[str, str]) -> tuple[Finding, ...]:
    """Everything that can be said of one plugin; ``project`` is the folder whose tests are run. Blocks while they run."""
    if plugin.state is not PluginState.LOADED:
        return (_bad("loads", f"it is {plugin.state}: {plugin.reason}"),)
    found = [_good("loads", f"in {plugin.load_ms:.0f} ms, written for API {plugin.api}")]
    found += [_bad("hooks", note) for note in plugin.notes] or [_good("hooks", "each one is called")]
    claimed = [one for one in host.clashes if plugin.distribution in one]
    found += [_bad("names", one) for one in claimed] or [_good("names", "nobody else claims one")]
    if not plugin.types and not any(one.plugin == plugin.name for calls in host.calls.values() for one in calls):
        found.append(_bad("types", "it registers no type and listens to no hook"))
    for kind, name in plugin.types:
        found += _settings(host.registry, kind, name)
    found += _conformance(plugin, project, environ)
    return tuple(found)


def _settings(registry: Registry, kind: str, name: str) -> Iterator[Finding]:
    what = f"{kind} '{name}'"
    (model,) = (one.settings for one in registry.types if (one.kind, one.name) == (kind, name))
    try:
        schema = cast("Mapping[str, JsonValue]", model.model_json_schema())
        properties = cast("Mapping[str, Mapping[str, JsonValue]]", schema.get("properties", {}))
    except Exception as error:  # a model of a stranger's may raise anything
        yield _bad("settings", f"{what}: its settings have no JSON Schema: {said_of(error)}")
        return
    if schema.get("additionalProperties") is not False:
        yield _bad("settings", f'{what}: unknown keys are taken; write model_config = ConfigDict(extra="forbid")')
    bare = [key for key, one in properties.items() if "description" not in one and "$ref" not in one]
    if bare:
        yield _bad("settings", f"{what}: no description of {', '.join(bare)}; write Field(description=…)")
    if not bare and schema.get("additionalProperties") is False:
        yield _good("settings", f"{what}: {len(properties)} keys, each described, unknown ones refused")
    secret = [key for key in properties if SECRET_KEY.search(key)]
    shown = [key for key in secret if shows(model, key)]
    if shown:
        yield _bad("secrets", f"{what}: {', '.join(shown)} can be read in its repr; write SecretStr, or Field(repr=False)")
    elif secret:
        yield _good("secrets", f"{what}: {', '.join(secret)} cannot be read in its repr")


def _conformance(plugin: PluginRecord, project: Path | None, environ: Mapping[str, str]) -> Iterator[Finding]:
    kinds = sorted({kind for kind, _ in plugin.types})
    if not kinds:
        return
    if project is None:
        yield _unknown("conformance", "give the folder of its project: the suites are run by its own tests")
        return
    missing = [one for one in ("pytest", "cronpad_testkit") if importlib.util.find_spec(one) is None]
    if missing:
        yield _unknown("conformance", "not run: install cronpad-testkit, which has the suites, and pytest")
        return
    tests = "\n".join(path.read_text("utf-8", "replace") for path in sorted((project / "tests").rglob("*.py")))
    unproved = [f"{kind} ({suite})" for kind in kinds for suite in _SUITES[kind] if suite not in tests]
    if unproved:
        yield _bad("conformance", f"no test in {project / 'tests'} adopts the suite of: {', '.join(unproved)}")
    if tests:
        yield from _run_tests(project, environ, sink="sink" in kinds)


def _run_tests(project: Path, environ: Mapping[str, str], *, sink: bool) -> Iterator[Finding]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", "tests"]
        path = os.pathsep.join(filter(None, [str(project.resolve()), environ.get("PYTHONPATH", "")]))
        try:
            done = subprocess.run(
                command, cwd=project, env={**environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=_SUITE_LIMIT_S
            )
        except subprocess.TimeoutExpired:
            yield _bad("conformance", f"its tests did not end within {_SUITE_LIMIT_S:g} s")
            return
        if not report.is_file():
            last = (done.stdout + done.stderr).strip().splitlines()[-1:] or ["it said nothing"]
            yield _bad("conformance", f"pytest ended with {done.returncode}: {last[0]}")
            return
        cases = list(ElementTree.parse(report).iter("testcase"))
    yield from _read(cases, sink=sink)


def _read(cases: list[ElementTree.Element], *, sink: bool) -> Iterator[Finding]:
    failed = [(one, part) for one in cases for part in one if part.tag in ("failure", "error")]
    skipped = [str(one.get("name")) for one in cases for part in one if part.tag == "skipped"]
    for case, part in failed:
        said = " ".join(str(part.get("message", "")).split())[:200]
        check = "cancels" if "k2" in str(case.get("name")) else "conformance"
        yield _bad(check, f"{case.get('name')}: {said}")
    if not failed:
        yield _good("conformance", f"{len(cases) - len(skipped)} tests passed, {len(skipped)} skipped")
    ends = [one for one in cases if "ends_when_it_is_asked" in str(one.get("name"))]
    if sink and ends and not any("k2" in str(case.get("name")) for case, _ in failed):
        if any(part.tag == "skipped" for one in ends for part in one):
            yield _unknown("cancels", "not tried: give the suite settings of a job that goes on for minutes (hangs=…)")
        else:
            yield _good("cancels", "a delivery that hangs ends soon after it is asked to")


def _good(check: str, text: str) -> Finding:
    return Finding(check=check, answer=Answer.GOOD, text=text)


def _bad(check: str, text: str) -> Finding:
    return Finding(check=check, answer=Answer.BAD, text=text)


def _unknown(check: str, text: str) -> Finding:
    return Finding(check=check, answer=Answer.UNKNOWN, text=text)
