"""How the interpreter serves a process that does nothing but run jobs."""

from __future__ import annotations

import gc
import sys

__all__ = ["settle_interpreter"]


def settle_interpreter() -> None:
    """Sets the collector and the threads' turns for a runner; not for a program that embeds one, whose they are.

    Called once, when what lives as long as the process has been loaded.
    """
    # In a backlog, looking again and again at what never goes away cost a quarter of the processor time.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    # The files' threads and the loop take turns at the interpreter: with the usual 5 ms each of a start's steps may wait so long.
    sys.setswitchinterval(0.0005)
