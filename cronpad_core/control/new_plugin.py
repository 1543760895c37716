"""A package to start a plugin from: complete, written offline, and its tests pass before anything is edited."""

from __future__ import annotations

import importlib.util
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template
from typing import Final

from cronpad_core.domain.errors import ConfigurationError, StateUnwritableError
from cronpad_core.host import PluginHost
from cronpad_core.host.missing import PACKAGES

__all__ = ["KINDS", "NewPlugin", "write_plugin"]

KINDS: Final = {"sink": "sink", "misfire": "misfire policy", "alert": "alert emitter", "storage": "storage"}
"""What ``cronpad plugin new`` calls a kind, and what everybody else calls it."""

_WHAT: Final = {"sink": "A sink", "misfire": "A misfire policy", "alert": "An alert emitter", "storage": "A storage"}
_REQUIRES: Final = {"storage": ""}
_PYDANTIC: Final = ', "pydantic>=2.14,<3"'
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_LONGEST: Final = 40
_OURS: Final = frozenset(
    {"core", "testkit", *(one.removeprefix("cronpad-") for kind in PACKAGES.values() for one in kind.values())}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPlugin:
    """What to write: ``kind`` is a key of :data:`KINDS`, ``version`` that of the core which the package is written for."""

    kind: str
    name: str
    into: Path
    version: str

    @property
    def folder(self) -> Path:
        """The folder of the package."""
        return self.into / f"cronpad-{self.name}"

    @property
    def package(self) -> str:
        """What Python calls the package."""
        return f"cronpad_{self.name.replace('-', '_')}"

    def words(self) -> dict[str, str]:
        """What stands for each word of a template."""
        return {
            "name": self.name,
            "distribution": self.folder.name,
            "package": self.package,
            "prefix": "".join(part.capitalize() for part in self.name.split("-")),
            "what": f"{_WHAT[self.kind]} '{self.name}'",
            "bounds": _bounds(self.version),
            "requires": _REQUIRES.get(self.kind, _PYDANTIC),
        }


def write_plugin(wanted: NewPlugin, host: PluginHost) -> tuple[Path, ...]:
    """Writes the package and answers its files; where it cannot be written as a whole, nothing is left.

    Raises ``ConfigurationError`` for a name that is not allowed or taken and for a folder that exists, and
    ``StateUnwritableError`` where the disk refuses.
    """
    _check_name(wanted, host)
    if not wanted.into.is_dir():
        raise ConfigurationError(f"{wanted.into} is no folder", hint="make it first, or name another one with --into")
    contents = dict(_contents(wanted))
    try:
        wanted.folder.mkdir()
    except FileExistsError:
        raise ConfigurationError(
            f"{wanted.folder} exists already", hint="choose another name, or --into another folder"
        ) from None
    except OSError as error:
        raise StateUnwritableError(f"{wanted.folder} cannot be made: {error.strerror}") from error
    try:
        for path, text in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        shutil.rmtree(wanted.folder, ignore_errors=True)
        raise StateUnwritableError(f"{wanted.folder} cannot be written: {error.strerror}") from error
    return tuple(contents)


def _check_name(wanted: NewPlugin, host: PluginHost) -> None:
    name, kind = wanted.name, KINDS[wanted.kind]
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        raise ConfigurationError(
            f"'{name:.60}' is no name for a plugin",
            hint="write up to 40 lower-case letters and digits, with single dashes between them, such as 'my-pager'",
        )
    holder = next((one for one in host.registry.types if (one.kind, one.name) == (kind, name)), None)
    plugin = host.plugin(name)
    if holder is not None:
        whose = f"{kind} '{name}' comes with {holder.distribution}"
    elif plugin is not None:
        whose = f"plugin {plugin.name} of {plugin.distribution} goes by '{name}'"
    elif name in _OURS:
        whose = f"cronpad-{name} is a package of cronpad's own"
    elif importlib.util.find_spec(wanted.package) is not None:
        whose = f"a package {wanted.package} is installed"
    else:
        return
    raise ConfigurationError(f"the name '{name}' is taken: {whose}", hint="choose another name")


def _contents(wanted: NewPlugin) -> Iterator[tuple[Path, str]]:
    words = wanted.words()
    templates = files("cronpad_core.control") / "templates"
    for part in ("every", wanted.kind):
        for name, template in _files_below(templates / part):
            path = name.removesuffix(".tmpl").replace("PACKAGE", wanted.package)
            path = path.replace("MODULE", wanted.name.replace("-", "_"))
            yield wanted.folder / path, Template(template.read_text(encoding="utf-8")).substitute(words)
    if wanted.kind == "storage":
        yield from _reference_stores(wanted)


def _reference_stores(wanted: NewPlugin) -> Iterator[tuple[Path, str]]:
    """The storage in memory, which uses the door of plugin authors alone, as the package's own to begin with."""
    for one in sorted(files("cronpad_core.builtin").iterdir(), key=lambda each: each.name):
        if one.name.startswith("memory") and one.name.endswith(".py"):
            text = one.read_text(encoding="utf-8").replace("from cronpad_core.builtin.", "\nfrom cronpad_core.builtin.", 1)
            text = text.replace("cronpad_core.builtin.", f"{wanted.package}.")
            yield wanted.folder / wanted.package / one.name, text


def _files_below(folder: Traversable, above: str = "") -> Iterator[tuple[str, Traversable]]:
    for one in sorted(folder.iterdir(), key=lambda each: each.name):
        if one.is_dir():
            yield from _files_below(one, f"{above}{one.name}/")
        elif one.name.endswith(".tmpl"):
            yield f"{above}{one.name}", one


def _bounds(version: str) -> str:
    """``>=0.1.0.dev0,<0.2`` of ``0.1.0.dev0``: up to the next version that may take something away."""
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]] or [0]
    major, minor = (*numbers, 0)[:2]
    return f">={version},<{f'0.{minor + 1}' if major == 0 else major + 1}"
