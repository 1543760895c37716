"""Floor 2: the moving parts. Each step takes a ticket and returns one; only :mod:`cronpad_core.runtime.compose` knows the order."""
