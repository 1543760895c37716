"""The nursery: a process of its own that starts all commands, knows all that they started, and outlives the runner by seconds.

Everything in here but :mod:`~cronpad_command.nursery.wire` runs in that process, on the standard library alone, without cronpad.
"""
