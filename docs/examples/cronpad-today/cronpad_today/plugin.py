"""The hooks of this plugin."""

from __future__ import annotations

from collections.abc import Sequence

from cronpad_core.api import MisfirePolicy, hookimpl
from cronpad_today.policy import Today


@hookimpl
def cronpad_register_misfire_policies() -> Sequence[type[MisfirePolicy]]:
    """One policy: ``today``."""
    return [Today]
