"""How much a listing may be asked for (B108)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result


@pytest.mark.parametrize("listing", [("runs", "list"), ("queue", "peek")], ids=" ".join)
@pytest.mark.parametrize("limit", ["-1", "0", "1000000"])
def test_a_limit_out_of_range_is_refused(call: Callable[..., Result], site: Path, listing: tuple[str, str], limit: str) -> None:
    """Exit 2, naming the option and its range; no state is looked at."""
    result = call(*listing, "--limit", limit)
    assert result.exit_code == 2
    assert "--limit" in result.stderr and "1<=x<=" in result.stderr
