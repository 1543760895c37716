"""Jobs files become declared jobs: all files, all problems at once, and nothing of them is used unless all are valid."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cronpad_core.config.formats import FORMATS, read_document
from cronpad_core.config.one_file import DeclaredJob, Gathered, JobsFile
from cronpad_core.config.plugin_settings import Types
from cronpad_core.config.problems import Place, Problem, Problems
from cronpad_core.domain.alerts import AlertSpec
from cronpad_core.domain.errors import ConfigurationError, PluginError

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["DeclaredJob", "LoadedFiles", "check_jobs", "load_jobs"]

_NO_TYPES: Final[Mapping[str, str]] = {}
_NO_EMITTERS: Final[Mapping[str, type[BaseModel]]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedFiles:
    """What a set of files says. ``origins`` are all files read, also those without a job; ``alerts`` the ``[alerts.*]`` tables,
    by name."""

    specs: tuple[DeclaredJob, ...]
    origins: frozenset[str]
    alerts: Mapping[str, AlertSpec]
    warnings: tuple[Problem, ...]


def load_jobs(
    paths: Sequence[Path],
    *,
    sinks: Mapping[str, type[BaseModel]],
    misfires: Mapping[str, type[BaseModel] | None],
    emitters: Mapping[str, type[BaseModel]] = _NO_EMITTERS,
    environ: Mapping[str, str],
    unavailable: Mapping[str, str] = _NO_TYPES,
    system: bool = False,
) -> LoadedFiles:
    """Reads files and directories; raises ``ConfigurationError`` with every problem of every file in ``report``.

    ``sinks``, ``misfires`` and ``emitters`` give the models of loaded types, ``unavailable`` the types whose plugin failed, with
    why. A file whose only problems are such types raises ``PluginError``. ``system``: crontab lines have a user column.
    """
    types = Types(sinks=sinks, misfires=misfires, emitters=emitters, unavailable=unavailable)
    loaded, problems = check_jobs(paths, types=types, environ=environ, system=system)
    errors = problems.errors
    if errors and all(problem.code == "CP124" for problem in errors):
        lines = [f"{one.place}: {one.message}; {one.label}" + (f"; {one.hint}" if one.hint else "") for one in errors]
        raise PluginError("\n".join(lines), hint="'cronpad plugin list' shows what is installed")
    if errors:
        raise ConfigurationError(problems.summary(), report=problems.report())
    return loaded


def check_jobs(
    paths: Sequence[Path], *, types: Types, environ: Mapping[str, str], system: bool = False
) -> tuple[LoadedFiles, Problems]:
    """As :func:`load_jobs`, but answers the problems instead of raising: for ``validate`` and ``lint``."""
    problems = Problems()
    gathered = Gathered(problems=problems)
    files = _files_of(paths, problems)
    for path in files:
        document = read_document(path, problems, environ=environ, system=system)
        if document is not None:
            JobsFile(document=document, origin=os.path.abspath(path), problems=problems, types=types, environ=environ).read(
                gathered
            )
    gathered.check_alert_names()
    origins = frozenset(os.path.abspath(path) for path in files)
    return LoadedFiles(specs=tuple(gathered.jobs), origins=origins, alerts=gathered.alerts, warnings=problems.warnings), problems


def _files_of(paths: Sequence[Path], problems: Problems) -> list[Path]:
    """The files, those of a directory sorted, each once."""
    if not paths:
        raise ConfigurationError("no jobs file was given", hint="'cronpad init' writes one")
    found: dict[str, Path] = {}
    for path in paths:
        try:
            inside = sorted(path.iterdir()) if path.is_dir() else None
        except OSError as error:
            message = f"the directory cannot be read: {error.strerror}"
            problems.add(Problem(code="CP100", message=message, place=Place(file=str(path))))
            continue
        files = [path] if inside is None else [one for one in inside if _is_jobs_file(one)]
        if not files:
            known = ", ".join(f"*{suffix}" for suffix in FORMATS)
            message = "the directory has no jobs file in it"
            problems.add(
                Problem(code="CP100", message=message, place=Place(file=str(path)), label=f"read are {known} and crontab")
            )
        for file in files:
            found.setdefault(os.path.abspath(file), file)
    return list(found.values())


def _is_jobs_file(path: Path) -> bool:
    # cronpad.toml holds settings; hidden entries are editors' and Kubernetes' own.
    if path.name.startswith(".") or path.name == "cronpad.toml" or path.is_dir():
        return False
    return path.suffix.lower() in FORMATS or path.name.lower() == "crontab"
