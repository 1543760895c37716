"""The power is cut at any moment: what was acknowledged is there, and the next start loses no slot and repeats no ended run.

A runner works while everything that it does to its files is recorded; the disk is built anew as it may be after a cut at many
places of the record, and a real runner is started on each.
"""

from __future__ import annotations

import json
import random
import shutil
import time
from collections import Counter
from pathlib import Path

from disk_image import KINDS, Entry, entries_of, image
from place import Course, Row, Seen, last_words
from preload import library
from stage import wait_until

__all__ = ["power_cuts"]

_AT = "CHAOS_RECORD"


class _Recorded(Course):
    """Each line of its witness ends with how long the record was when it was written."""

    def line(self, tag: str) -> str:
        facts = " ".join([tag, "$CRONPAD_RUN_ID", "$CRONPAD_SCHEDULED_AT", "$CRONPAD_ATTEMPT", "$E2E_RUNNER", "$CRONPAD_FENCE"])
        return f'at=$(stat -c %s ${_AT} 2>/dev/null); echo "{facts}" >> $CHAOS_NOTES; echo "$at" >> $CHAOS_NOTES.$CRONPAD_FENCE'

    def seen_before(self, end: int) -> list[Seen]:
        """The lines that were written when the record was not longer than this."""
        places = {line: Path(f"{self.notes}.{line.fence}") for line in self.witness()}
        return [line for line, place in places.items() if int(place.read_text("utf-8").split()[0]) <= end]


def power_cuts(root: Path, count: int, *, jobs: int = 12, for_s: float = 8, seed: int, delivery: str = "durable") -> Row:
    """Records once, then cuts so many times. Raises ``Unavailable`` without a compiler."""
    rng = random.Random(seed)
    root.mkdir(parents=True)
    log = root / "record"
    with _Recorded(root / "recorded") as course:
        shim = library("power", root)
        course.fill(jobs)
        env = {"LD_PRELOAD": str(shim), "POWER_LOG": str(log), "POWER_ROOT": str(course.state), _AT: str(log)}
        env["CRONPAD_DELIVERY"] = delivery
        for _ in range(2):
            # The second is cut short as well, and begins with what the first left behind.
            runner = course.start(env=env).active()
            time.sleep(for_s / 2)  # how long it is recorded
            runner.kill()
        wait_until(lambda: course.leftovers() == {}, "its commands have ended")
        entries = entries_of(log)
        first = next(index for index, entry in enumerate(entries) if entry.kind == "s")
        row = Row(f"power cut, {delivery}")
        row.notes["recorded calls"] = len(entries)
        for number in range(count):
            cut, kind = rng.randrange(first // 2, len(entries) + 1), KINDS[number % len(KINDS)]
            row.add(_start_on(course, root / f"image-{number}", entries, cut, kind, rng, delivery))
            row.notes[f"images {kind}"] += 1
    return row


def _start_on(
    course: _Recorded, place: Path, entries: list[Entry], cut: int, kind: str, rng: random.Random, delivery: str
) -> Row:
    """One image, one start on it, and what came of it."""
    end = entries[cut - 1].end if cut else 0
    with Course(place) as after:
        after.state.mkdir()
        for name, content in image(entries, cut, kind, rng).items():
            (after.state / name).write_bytes(content)
        said = b"".join(entry.data for entry in entries[:cut] if entry.kind == "s").decode()
        acknowledged = [json.loads(line) for line in said.splitlines() if line.startswith("{") and line.endswith("}")]
        before = course.seen_before(end)
        texts = [f"{one.tag} {one.run_id} {_rfc(one.slot_ms)} {one.attempt} -1 {one.fence}\n" for one in before]
        after.notes.write_text("".join(texts), "utf-8")
        shutil.copy(course.file, after.file)
        runner = after.start(file=course.file, env={"CRONPAD_DELIVERY": delivery}).active()
        runner.finished("job-1", count=2)
        after.come_to_rest(runner, within=60)
        row = after.reckon("power cut", 1)
        # In fast mode the newest results may be lost, and their attempts are repeated: that is what it is told to do.
        row.findings += after.of_reported(acknowledged, runner.number) if delivery == "durable" else []
        if delivery == "fast":
            # As documented: the newest rows may be lost with the power, those that say that a slot came up among them.
            row.notes["newest slots lost in fast mode"], row.lost = row.lost, 0
            row.findings = [one for one in row.findings if not one.endswith(": 0 outcomes") and "no outcome" not in one]
        row.findings = [f"{place.name}, {kind} at {cut}: {one}" for one in row.findings]
        if row.findings:
            row.findings.append(f"{place.name} said: {last_words(runner)}")
    row.notes = Counter({name: count for name, count in row.notes.items() if "fast mode" in name})
    row.notes["acknowledged results"] = len(acknowledged)
    if not row.findings:
        shutil.rmtree(place)
    return row


def _rfc(slot_ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(slot_ms // 1000)) + f".{slot_ms % 1000:03}+00:00"
