"""The misfire policies of the core keep the promises of the port."""

from __future__ import annotations

import pytest

from cronpad_core.api import MisfirePolicy
from cronpad_core.builtin.misfire import All, Earliest, Latest, Skip
from cronpad_testkit.suites import MisfirePolicySuite


class TestBuiltinPolicies(MisfirePolicySuite):
    """M1 to M3, of each policy."""

    @pytest.fixture(params=[Latest, Earliest, All, Skip], ids=lambda kind: kind.name)
    def policy_type(self, request: pytest.FixtureRequest) -> type[MisfirePolicy]:
        """Each of the four."""
        kind: type[MisfirePolicy] = request.param
        return kind
