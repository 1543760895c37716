"""Makes the workbench of this folder importable whatever import mode pytest runs in."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def bench() -> object:
    """A workbench with an empty state."""
    from bench import Bench

    return Bench()
