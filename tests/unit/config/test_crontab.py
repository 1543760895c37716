"""Crontabs: what cron does with a line is what cronpad does, or it says so."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cronpad_core.config.jobsfile import LoadedFiles

Load = Callable[..., LoadedFiles]
Report = Callable[..., str]


def test_lines_variables_and_notes(load: Load) -> None:
    """Variables hold from their line on; a note belongs to the next line; names are stable."""
    text = """\
# m h dom mon dow command
PATH = "/usr/bin:/bin"
*/5 * * * *\t/opt/backup.sh --all
CRON_TZ=Europe/Madrid
# cronpad: name=nightly timeout=45m retry=2 tags=a,b overlap=allow id=n-1

30 3 * * 1-5  date +\\%F
SHELL=/bin/bash
MAILTO=""
@daily true
@daily true
"""
    loaded = load({"my.crontab": text})
    backup, nightly, first, second = (declared.spec for declared in loaded.specs)
    assert backup.name.startswith("backup.sh-")
    assert backup.schedule.texts == ("*/5 * * * *",)
    assert backup.schedule.timezone == "UTC"
    assert backup.sink.settings == {"command": "/opt/backup.sh --all", "env": {"PATH": "/usr/bin:/bin"}}
    assert (nightly.name, nightly.timeout_ms, nightly.retry.max, nightly.tags) == ("nightly", 2_700_000, 2, ("a", "b"))
    assert nightly.schedule.timezone == "Europe/Madrid"
    assert nightly.sink.settings["command"] == "date +%F"
    assert first.sink.settings["command"] == ["/bin/bash", "-c", "true"]
    assert second.name == f"{first.name}-2"
    assert [declared.id for declared in loaded.specs] == [None, "n-1", None, None]
    assert loaded.warnings == ()


def test_names_do_not_depend_on_the_place(load: Load) -> None:
    """A line keeps its name when lines around it change."""
    before = load({"crontab": "0 1 * * * a\n0 2 * * * b\n"}).specs
    after = load({"crontab": "5 5 * * * new\n\n0  2 * * *    b\n"}).specs
    assert before[1].spec.name == after[1].spec.name


def test_what_is_not_acted_on_is_reported(load: Load) -> None:
    """``MAILTO``, ``@reboot`` and input after ``%`` are warnings with their places."""
    text = "MAILTO=root\n@reboot /bin/start\n0 0 * * * date +%F\n"
    loaded = load({"crontab": text})
    assert [declared.spec.sink.settings["command"] for declared in loaded.specs] == ["date +"]
    assert [(one.code, one.place.line, one.place.column) for one in loaded.warnings] == [
        ("CP127", 1, 8),
        ("CP127", 2, 1),
        ("CP109", 3, 17),
    ]


@pytest.mark.parametrize(
    ("text", "code", "place", "words"),
    [
        ("* * * *\n", "CP100", "crontab:1:1", "five time fields"),
        ("61 * * * * x\n", "CP102", "crontab:1:1", "61 is not in 0-59"),
        ("0 * * * FUN x\n", "CP102", "crontab:1:9", 'did you mean "0 * * * SUN"?'),
        ("@dialy x\n", "CP102", "crontab:1:1", 'did you mean "@daily"?'),
        ("CRON_TZ=Nowhere/City\n0 0 * * * x\n", "CP102", "crontab:1:9", "'Nowhere/City'"),
        ("# cronpad: timout=5m\n0 0 * * * x\n", "CP101", "crontab:1:12", 'did you mean "timeout"?'),
        ("# cronpad: timeout=5\n0 0 * * * x\n", "CP123", "crontab:1:12", 'did you mean "5s"?'),
        ("# cronpad: hello name=a\n0 0 * * * x\n", "CP100", "crontab:1:12", "key=value"),
        ("0 0 * * * %x\n", "CP125", "crontab:1:11", "the command is empty"),
    ],
)
def test_bad_lines(report: Report, text: str, code: str, place: str, words: str) -> None:
    """Each bad line is one error at its part."""
    found = report(text, "crontab")
    assert found.count("error[") == 1, found
    assert f"error[{code}]" in found
    assert f"┌─ {place}" in found
    assert words in found


def test_user_column(load: Load, report: Report) -> None:
    """With ``system`` the sixth column is a user: one's own is fine, another's is refused rather than ignored."""
    text = "0 0 * * * app /bin/true\n"
    (declared,) = load({"crontab": text}, system=True, environ={"LOGNAME": "app"}).specs
    assert declared.spec.sink.settings == {"command": "/bin/true"}
    found = report(text, "crontab", system=True, environ={"LOGNAME": "root"})
    assert "error[CP129]" in found
    assert "crontab:1:11" in found


def test_zone_of_the_environment(load: Load) -> None:
    """Without ``CRON_TZ`` times are read in ``TZ``, as cron does; what is no zone there is passed over."""
    for zone, expected in (("Europe/Madrid", "Europe/Madrid"), (":Asia/Tokyo", "Asia/Tokyo"), ("CET-1CEST", "UTC"), ("", "UTC")):
        assert load({"crontab": "0 0 * * * x\n"}, environ={"TZ": zone}).specs[0].spec.schedule.timezone == expected


def test_found_by_content(load: Load) -> None:
    """A file without an extension that holds crontab lines is a crontab."""
    assert len(load({"spool": "# x\nPATH=/bin\n\n*/5 0-6 * * mon-fri true\n"}).specs) == 1
    assert len(load({"spool": "@hourly true\n"}).specs) == 1


def test_nothing_is_filled_in(load: Load) -> None:
    """``${NAME}`` in a crontab is the shell's."""
    (declared,) = load({"crontab": "A=${B}\n0 0 * * * echo ${HOME} $$\n"}).specs
    assert declared.spec.sink.settings == {"command": "echo ${HOME} $$", "env": {"A": "${B}"}}
