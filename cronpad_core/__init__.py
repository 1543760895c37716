"""cronpad: a scheduler that keeps its promises when the machine, the disk, the clock or the endpoint does not.

Importing this package loads nothing: no plugin, no file, no thread. Plugin authors import :mod:`cronpad_core.api`, programs
that build a cronpad of their own :mod:`cronpad_core.app`.
"""
