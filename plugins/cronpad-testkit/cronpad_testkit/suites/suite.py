"""What all suites share: capabilities, and no way of leaving a promise out without saying so."""

from __future__ import annotations

from typing import ClassVar

import pytest

__all__ = ["Suite"]

_GUARD = "test_no_promise_is_left_out_silently"


class Suite:
    """Tests of one port. A subclass named ``Test…`` adopts them with the fixture that the suite names.

    ``capabilities`` says what the adopting plugin can do beyond what all must; a test that needs another one is skipped, visibly.
    A test that cannot pass yet is overridden with ``@pytest.mark.xfail(reason="…")`` and calls ``super()``; removing one or
    overriding it in any other way fails.
    """

    capabilities: ClassVar[frozenset[str]] = frozenset()
    known_capabilities: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if _GUARD in cls.__dict__:
            raise TypeError(f"{cls.__qualname__} overrides {_GUARD}, which watches over all others")

    def needs(self, capability: str) -> None:
        """Skips the calling test unless the plugin has this capability."""
        if capability not in self.capabilities:
            pytest.skip(f"{type(self).__name__} does not declare the capability {capability!r}")

    def test_no_promise_is_left_out_silently(self) -> None:
        """No inherited test is removed, or overridden without an xfail that gives its reason; capabilities are known words."""
        assert self.capabilities <= self.known_capabilities, f"known capabilities are {sorted(self.known_capabilities)}"
        left_out = [name for name in _promises(type(self)) if not _excused(type(self), name)]
        assert not left_out, f"overridden or removed without pytest.mark.xfail(reason=…): {', '.join(left_out)}"


def _shipped(cls: type) -> bool:
    return cls.__module__.startswith("cronpad_testkit.")


def _promises(cls: type) -> list[str]:
    return sorted({name for base in cls.__mro__ if _shipped(base) for name in vars(base) if name.startswith("test_")})


def _excused(cls: type, name: str) -> bool:
    owner = next(base for base in cls.__mro__ if name in vars(base))
    if _shipped(owner):
        return True
    marks = getattr(vars(owner)[name], "pytestmark", [])
    return any(mark.name == "xfail" and mark.kwargs.get("reason") for mark in marks)
