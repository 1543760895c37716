"""The libraries that are preloaded into a runner, built from tests/chaos/shims where they are needed."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from pathlib import Path

__all__ = ["Unavailable", "library", "set_offset"]

_SHIMS = Path(__file__).parent / "shims"


class Unavailable(Exception):
    """This machine cannot do it; the text says why."""


def library(name: str, into: Path) -> Path:
    """Compiles ``shims/<name>.c``; answers where it is. Raises :class:`Unavailable`."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not sys.platform.startswith("linux"):
        raise Unavailable("preloading works on Linux alone")
    if compiler is None:
        raise Unavailable("no C compiler (cc) was found")
    target = into / f"{name}.so"
    command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(target), str(_SHIMS / f"{name}.c"), "-ldl", "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Unavailable(f"{name}.c cannot be compiled here: {done.stderr.strip()[:500]}")
    return target


def set_offset(path: Path, offset_ms: int) -> None:
    """Sets the clock of every runner that has the file: in place, for it is mapped by them."""
    if not path.exists():
        path.write_bytes(bytes(8))
    with path.open("r+b") as file:
        file.write(struct.pack("=q", offset_ms))
