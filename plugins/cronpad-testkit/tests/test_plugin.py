"""What pytest loads from the kit works in somebody else's test run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_TESTS = """
from cronpad_testkit.suites import MisfirePolicySuite
import pytest

class Skip:
    name, api = "skip", 1
    class Settings:
        @classmethod
        def model_validate(cls, values):
            if values:
                raise ValueError(f"unknown: {values}")
    def decide(self, window):
        from cronpad_core.api import ReplayPlan
        return ReplayPlan()

class TestSkip(MisfirePolicySuite):
    @pytest.fixture
    def policy_type(self):
        return Skip

def test_virtual(cronpad_virtual):
    async def main(clock):
        start_ms = clock.wall_ms()
        await clock.sleep(3_600_000)
        return clock.wall_ms() - start_ms
    assert cronpad_virtual(main, seed=1) == 3_600_000
"""


def test_a_stranger_adopts_a_suite(tmp_path: Path) -> None:
    """A test file of another project that subclasses a suite and uses the fixture passes, all tests collected."""
    (tmp_path / "test_mine.py").write_text(_TESTS)
    paths = [path for path in sys.path if path]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "cronpad_testkit.pytest_plugin",
        str(tmp_path),
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": ":".join(paths), "HOME": "/tmp", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    assert "6 passed" in done.stdout, done.stdout + done.stderr
