"""Crontabs: each line becomes the jobs-file table that means the same.

python-crontab keeps bad lines as text, has no line numbers and leaks variables, so lines are read here.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from cronpad_core.config.document import Document, Path, Span, Spans
from cronpad_core.config.problems import Problem, Problems, Severity, did_you_mean
from cronpad_core.domain.errors import ScheduleError
from cronpad_core.domain.timing import JsonValue
from cronpad_core.schedules.zones import load_zone

__all__ = ["looks_like_crontab", "read_crontab"]

_VARIABLE: Final = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([A-Za-z_][A-Za-z0-9_]*))\s*=\s*(.*?)\s*$""")
_WORD: Final = re.compile(r"\S+")
_NOTE: Final = re.compile(r"\s*#\s*cronpad:\s*(.*)$")
_NOTE_ITEM: Final = re.compile(r"""([A-Za-z_]+)=(?:"([^"]*)"|'([^']*)'|(\S*))""")
_NOTE_KEYS: Final = (
    "name",
    "id",
    "timeout",
    "kill_grace",
    "retry",
    "jitter",
    "offset",
    "grace",
    "overlap",
    "concurrency",
    "misfire",
    "guarantee",
    "timezone",
    "tags",
    "alerts",
    "workspace",
)
_CRON_LINE: Final = re.compile(r"\s*(?:@[a-z]+\s+\S|(?:[-0-9*/,A-Za-z?#~()]+\s+){5}\S)")
_STARTS: Final = re.compile(r"\s*[0-9*@H~]")


def looks_like_crontab(text: str) -> bool:
    """Whether the first line that is no comment or variable reads as a crontab line."""
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if _CRON_LINE.match(line) and _STARTS.match(line):
            return True
        if not re.match(r"\s*[A-Z_][A-Z0-9_]*\s*=", line):
            return False
    return False


def read_crontab(name: str, text: str, problems: Problems, *, environ: Mapping[str, str], system: bool) -> Document:
    """The document of a crontab; what is not acted on is reported. ``system``: the sixth column is a user."""
    zone, user = _zone_of(environ), environ.get("LOGNAME") or environ.get("USER")
    reader = _Reader(name=name, text=text, problems=problems, system=system, zone=zone, user=user)
    at = 0
    for line in text.split("\n"):
        reader.line(line.removesuffix("\r"), at)
        at += len(line) + 1
    data: JsonValue = {"version": 1, "jobs": reader.jobs}
    spans = reader.spans
    return Document(name=name, kind="crontab", text=text, data=data, positions=lambda _: spans)


def _zone_of(environ: Mapping[str, str]) -> str:
    """The zone that cron itself would read the times in, as far as the environment says: ``TZ``, else none."""
    name = environ.get("TZ", "").removeprefix(":")
    try:
        load_zone(name)
    except ScheduleError:
        return ""
    return name


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Walks the lines with what the lines before have set."""

    name: str
    text: str
    problems: Problems
    system: bool
    zone: str
    user: str | None
    jobs: list[JsonValue] = field(default_factory=list)
    spans: dict[Path, Spans] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    note: dict[str, tuple[str, Span]] = field(default_factory=dict)
    zone_span: Span | None = None
    names: dict[str, int] = field(default_factory=dict)

    def line(self, line: str, at: int) -> None:
        """Reads one line that starts at character ``at``."""
        note = _NOTE.match(line)
        if note:
            self._note(note[1], at + note.start(1))
        elif line.strip() and not line.lstrip().startswith("#"):
            variable = _VARIABLE.match(line)
            if variable and not _STARTS.match(line):
                self._variable(variable, at)
            else:
                self._job(line, at)
            self.note = {}

    def _report(
        self, code: str, message: str, span: Span, *, label: str = "", hint: str | None = None, error: bool = False
    ) -> None:
        place = Document(name=self.name, kind="crontab", text=self.text, data=None, positions=lambda _: {}).at(*span)
        severity = Severity.ERROR if error else Severity.WARNING
        self.problems.add(Problem(code=code, message=message, place=place, severity=severity, label=label, hint=hint))

    def _note(self, body: str, at: int) -> None:
        items = list(_NOTE_ITEM.finditer(body))
        rest = _NOTE_ITEM.sub("", body).strip(" \t,")
        if rest:
            start = at + max(0, body.find(rest.split()[0]))
            message = "a cronpad note is made of key=value pairs"
            self._report(
                "CP100",
                message,
                (start, start + len(rest.split()[0])),
                hint="for example # cronpad: name=backup timeout=45m",
                error=True,
            )
        for item in items:
            key = item[1]
            span = (at + item.start(), at + item.end())
            if key not in _NOTE_KEYS:
                self._report(
                    "CP101", f'unknown key "{key}" in a cronpad note', span, hint=did_you_mean(key, _NOTE_KEYS), error=True
                )
                continue
            self.note[key] = (next(part for part in (item[2], item[3], item[4]) if part is not None), span)

    def _variable(self, match: re.Match[str], at: int) -> None:
        name = next(part for part in match.groups()[:3] if part is not None)
        value = match[4]
        if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        span = (at + match.start(4), at + max(match.end(4), match.start(4) + 1))
        if name == "CRON_TZ":
            self.zone, self.zone_span = value, span
        elif name == "MAILTO":
            if value:
                message = "MAILTO is not acted on: cronpad sends no mail by itself"
                self._report("CP127", message, span, hint="declare an alert in a TOML or YAML jobs file")
        else:
            self.variables[name] = value

    def _job(self, line: str, at: int) -> None:
        words = list(_WORD.finditer(line))
        count = 1 if words[0][0].startswith("@") else 5
        needed = count + (2 if self.system else 1)
        if len(words) < needed:
            what = "five time fields (or an @alias)" + (", a user" if self.system else "") + " and a command"
            self._report("CP100", f"a crontab line has {what}", (at + words[0].start(), at + words[-1].end()), error=True)
            return
        if words[0][0].lower() == "@reboot":
            message = "@reboot lines are not run: they name no time"
            self._report("CP127", message, (at, at + 7), hint="start such a command from the service manager")
            return
        schedule = line[words[0].start() : words[count - 1].end()]
        user = words[count][0] if self.system else None
        if user is not None and user != self.user:
            span = (at + words[count].start(), at + words[count].end())
            self._report(
                "CP129",
                "running a command as another user is not in this version",
                span,
                hint=f"run cronpad as {user}",
                error=True,
            )
        start = words[needed - 1].start()
        command = self._command(line[start:].rstrip(), at + start)
        path: Path = ("jobs", len(self.jobs))
        whole = (at + words[0].start(), at + len(line.rstrip()))
        self.spans.setdefault(("jobs",), Spans(key=whole, value=whole))
        self.spans.setdefault((), Spans(key=whole, value=whole))
        self.spans[path] = Spans(key=whole, value=whole)
        job: dict[str, JsonValue] = {}
        self._put(job, path, "name", self._name(schedule, command, user), (at + start, whole[1]))
        self._put(job, path, "schedule", schedule, (whole[0], at + words[count - 1].end()))
        if self.zone:
            self._put(job, path, "timezone", self.zone, self.zone_span or whole)
        for key, (value, span) in self.note.items():
            self._put(job, path, key, _note_value(key, value), span)
        self._put(job, path, "sink", self._sink(command), (at + start, whole[1]))
        self.spans[(*path, "sink", "command")] = self.spans[(*path, "sink")]
        self.jobs.append(job)

    def _put(self, job: dict[str, JsonValue], path: Path, key: str, value: JsonValue, span: Span) -> None:
        job[key] = value
        self.spans[(*path, key)] = Spans(key=span, value=span)

    def _command(self, raw: str, at: int) -> str:
        """What the shell gets: up to the first bare ``%``, with ``\\%`` as a percent sign."""
        bare = re.search(r"(?<!\\)%", raw)
        if bare:
            message = "unescaped % in a crontab: it ends the command, and the rest would be its input"
            span = (at + bare.start(), at + bare.end())
            self._report(
                "CP109", message, span, label="input for the command is not in this version", hint="for a percent sign write \\%"
            )
            raw = raw[: bare.start()].rstrip()
        return raw.replace("\\%", "%")

    def _sink(self, command: str) -> dict[str, JsonValue]:
        variables = dict(self.variables)
        shell = variables.pop("SHELL", "") or "/bin/sh"
        sink: dict[str, JsonValue] = {"type": "command", "command": command if shell == "/bin/sh" else [shell, "-c", command]}
        if variables:
            sink["env"] = dict(variables)
        return sink

    def _name(self, schedule: str, command: str, user: str | None) -> str:
        """The same for the same line wherever it stands; a second equal line gets ``-2``."""
        first = re.split(r"[\s;|&<>]", command, maxsplit=1)[0].rpartition("/")[2]
        word = re.sub(r"[^A-Za-z0-9._-]", "", first)[:40] or "job"
        digest = hashlib.sha256("\0".join((" ".join(schedule.split()), command, user or "")).encode()).hexdigest()[:8]
        name = f"{word}-{digest}"
        if "name" in self.note:
            return name
        self.names[name] = self.names.get(name, 0) + 1
        return name if self.names[name] == 1 else f"{name}-{self.names[name]}"


def _note_value(key: str, value: str) -> JsonValue:
    if key in ("tags", "alerts"):
        return [part for part in value.split(",") if part]
    if key in ("retry", "concurrency") and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    return value
