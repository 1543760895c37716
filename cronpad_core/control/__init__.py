"""Floor 6: use cases, the same functions for every surface."""
