"""Real deliveries to real servers on loopback."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("post_office")

from post_office import Desk  # noqa: E402  # needs the path


@pytest.fixture
def desk() -> Desk:
    """A desk with no secrets and the default host-wide settings."""
    return Desk()
