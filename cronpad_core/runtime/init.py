"""Being process 1 of a container: the runner becomes a child, and this process only reaps and passes signals on.

Linux gives every orphan to process 1 (or the nearest subreaper), and it alone can wait for it (wait(2)); a runner that also waited
for any child would take exit codes from those who started them.
"""

from __future__ import annotations

import os
import signal

__all__ = ["become_init"]

_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def become_init() -> int | None:
    """As process 1: forks, and answers the exit code of the child once it has ended. Else, and in the child: ``None``, at once.

    Must be called before any thread is started. A child that a signal ended gives 128+n.
    """
    if os.getpid() != 1:
        return None
    child = os.fork()
    if child == 0:
        return None
    for number in _PASSED_ON:
        signal.signal(number, lambda received, _frame: os.kill(child, received))
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            return 1
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
