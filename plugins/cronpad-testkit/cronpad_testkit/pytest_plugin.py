"""What pytest loads from the test kit: the fixture ``cronpad_virtual``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cronpad_testkit.clock import run_virtual

__all__ = ["cronpad_virtual"]


@pytest.fixture
def cronpad_virtual() -> Callable[..., Any]:
    """Runs ``main(clock)`` in virtual time: ``cronpad_virtual(main, seed=7)``; see ``cronpad_testkit.clock.run_virtual``."""
    return run_virtual
