"""What the runner and its nursery say to each other: one message a packet, its fields apart by NULs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = [
    "CLOSE",
    "END",
    "ENDED",
    "FAULT",
    "GONE",
    "HELD",
    "LARGEST",
    "MARK",
    "READY",
    "REFUSED",
    "SIGNAL",
    "START",
    "STARTED",
    "VARIABLE",
    "Order",
    "fields",
    "message",
]

MARK = "cronpad-nursery"
"""An argument of every nursery, by which it is known among processes."""

VARIABLE = "CRONPAD_NURSERY"
"""What every process of a run inherits: which run of which state it belongs to, as a digest. Two states can have the same ids."""

LARGEST = 65_536
"""What an order may be long; a longer one is sent as its token alone, and a file in memory holds it, third of the descriptors."""

# From the runner. Descriptors with START: the writing ends of standard output and standard error.
START = b"start"
"""token, run, slot of its lock, how long to wait for it (ms), directory or nothing, how many arguments, they, environment"""
SIGNAL = b"signal"
"""token, number: to the command's group"""
END = b"end"
"""token, grace (ms): TERM, and after the grace KILL, until nothing of the run is left"""
CLOSE = b"close"
"""grace (ms): the same for all runs; then the nursery ends"""

# From the nursery.
READY = b"ready"
STARTED = b"started"
"""token, process"""
REFUSED = b"refused"
"""token, error number or nothing, what it is about, text"""
HELD = b"held"
"""token: an earlier copy of the run is still there"""
ENDED = b"ended"
"""token, exit code or nothing, signal or nothing, 1 when nothing else of the run is left"""
GONE = b"gone"
"""token, how many processes would not go"""
FAULT = b"fault"
"""text: the last words of a nursery that broke"""


def message(kind: bytes, *parts: bytes | int) -> bytes:
    """One packet."""
    return b"\0".join([kind, *(b"%d" % part if isinstance(part, int) else part for part in parts)])


def fields(packet: bytes) -> tuple[bytes, list[bytes]]:
    """The kind of a packet, and the rest of it."""
    kind, *rest = packet.split(b"\0")
    return kind, rest


class Order:
    """What to start; all texts as bytes, as the system takes them."""

    __slots__ = ("argv", "cwd", "env", "patience_ms", "run", "slot", "token")

    def __init__(
        self,
        *,
        token: int,
        run: bytes,
        slot: int,
        patience_ms: int,
        cwd: bytes,
        argv: Sequence[bytes],
        env: Mapping[bytes, bytes],
    ) -> None:
        self.token = token
        self.run = run
        self.slot = slot
        self.patience_ms = patience_ms
        self.cwd = cwd
        self.argv = list(argv)
        self.env = dict(env)

    def packed(self) -> bytes:
        """As fields of a message; whoever makes an order has seen to it that no text holds a NUL and no name a ``=``."""
        head = (b"%d" % self.token, self.run, b"%d" % self.slot, b"%d" % self.patience_ms, self.cwd, b"%d" % len(self.argv))
        return b"\0".join([*head, *self.argv, *(name + b"=" + value for name, value in self.env.items())])

    @staticmethod
    def unpacked(packed: bytes) -> Order:
        """The order that was packed."""
        token, run, slot, patience_ms, cwd, count, *rest = packed.split(b"\0")
        split = int(count)
        env = dict(entry.split(b"=", 1) for entry in rest[split:])
        return Order(token=int(token), run=run, slot=int(slot), patience_ms=int(patience_ms), cwd=cwd, argv=rest[:split], env=env)
