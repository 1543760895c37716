"""The test kit of cronpad: conformance suites for plugins, virtual time, and a storage that fails on demand."""

from __future__ import annotations

import pytest

# Before the suites are imported, so that their asserts say what was compared.
pytest.register_assert_rewrite("cronpad_testkit.suites")
