"""Plugins that nobody installed: files beside a jobs file or in a folder, and the project of an author."""

from __future__ import annotations

import importlib.util
import os
import stat
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Final

from cronpad_core.api import ConfigurationError
from cronpad_core.hookspecs import ENTRY_POINT_GROUP
from cronpad_core.host.descriptors import RefusedError
from cronpad_core.host.entries import Entry, entry_of

__all__ = ["BESIDE", "entries_beside", "entries_in_folder", "entries_of_project"]

BESIDE: Final = "cronpad_plugins.py"
"""The name of the file beside a jobs file that is a plugin."""

_ROOT: Final = 0
_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


def entries_beside(files: Iterable[Path]) -> tuple[Entry, ...]:
    """``cronpad_plugins.py`` in the folder of each of these files and in each of these folders, where there is one."""
    folders = dict.fromkeys((one if one.is_dir() else one.parent).resolve() for one in files)
    return _unlike([folder / BESIDE for folder in folders if (folder / BESIDE).is_file()])


def entries_in_folder(folder: Path) -> tuple[Entry, ...]:
    """Each ``*.py`` of a folder, but for those whose names begin with ``_``. Raises ``ConfigurationError`` for no folder."""
    if not folder.is_dir():
        raise ConfigurationError(f"{folder} is no folder", hint="--plugins-dir names a folder with Python files, each a plugin")
    return _unlike(sorted(one.resolve() for one in folder.glob("*.py") if not one.name.startswith("_")))


def entries_of_project(folder: Path) -> tuple[Entry, ...]:
    """The entry points that the ``pyproject.toml`` of a folder declares, loaded from there. Raises ``ConfigurationError``."""
    file = folder / "pyproject.toml"
    try:
        project = tomllib.loads(file.read_text(encoding="utf-8")).get("project", {})
        points = dict(project.get("entry-points", {}).get(ENTRY_POINT_GROUP, {}))
        name, version = str(project.get("name", folder.name)), str(project.get("version", "?"))
    except OSError as error:
        raise ConfigurationError(
            f"{file} cannot be read: {error.strerror}", hint="name the folder of a plugin's project"
        ) from None
    except (tomllib.TOMLDecodeError, AttributeError, TypeError, ValueError) as error:
        raise ConfigurationError(f"{file} is no project file: {error}") from None
    if not points:
        hint = f'add [project.entry-points.{ENTRY_POINT_GROUP}] with a line such as: mine = "cronpad_mine.plugin"'
        raise ConfigurationError(f"{file} declares no plugin", hint=hint)
    return tuple(
        _from_folder(entry_of(EntryPoint(key, str(value), ENTRY_POINT_GROUP), name, version), folder)
        for key, value in points.items()
    )


def _from_folder(entry: Entry, folder: Path) -> Entry:
    def load() -> object:
        # In front: the folder is what is asked about, not a copy of it that is installed.
        sys.path.insert(0, str(folder.resolve()))
        return entry.load()

    return Entry(name=entry.name, value=entry.value, distribution=entry.distribution, version=entry.version, load=load)


def _unlike(files: Sequence[Path]) -> tuple[Entry, ...]:
    return tuple(_of_file(file, number) for number, file in enumerate(files))


def _of_file(file: Path, number: int) -> Entry:
    name = file.stem if number == 0 or file.name != BESIDE else f"{file.stem}-{number + 1}"
    load: Callable[[], object] = partial(_loaded, file, f"_cronpad_file_{number}_{file.stem}")
    return Entry(name=name, value=str(file), distribution=str(file), version="file", load=load)


def _loaded(file: Path, module_name: str) -> object:
    if os.geteuid() == _ROOT:
        for reason in _writable_by_others(file):
            raise RefusedError(f"{reason}, and this process is root; mend: chown root and chmod go-w")
    spec = importlib.util.spec_from_file_location(module_name, file)
    if spec is None or spec.loader is None:
        raise RefusedError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    # Known before it runs: dataclasses and pydantic look a class's module up by name.
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(module_name, None)
        raise
    return module


def _writable_by_others(file: Path) -> Iterator[str]:
    for path in (file, file.parent):
        found = path.stat()
        sticky = path.is_dir() and found.st_mode & stat.S_ISVTX
        if found.st_uid != _ROOT:
            yield f"{path} belongs to another user"
        elif found.st_mode & _OTHERS and not sticky:
            yield f"{path} can be written by others"
