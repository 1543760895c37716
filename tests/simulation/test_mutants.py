"""Protocols with one rule left out: each must be caught within a fixed number of seeds, or the simulation proves nothing."""

from __future__ import annotations

import pytest
from mutants import MUTANTS
from storm import storm

BUDGET = 150


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name: str) -> None:
    """A storm finds what the missing rule was for."""
    mutant = MUTANTS[name]
    for seed in range(1, BUDGET + 1):
        breach = storm(seed, kinds=mutant.kinds, broken=mutant.store, rebuild=mutant.engine).breach
        if breach is not None:
            assert breach.rule in mutant.caught_by, f"seed {seed}: {breach}"
            return
    pytest.fail(f"{name!r} was not caught in {BUDGET} seeds")
