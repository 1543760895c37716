"""What an exit status becomes."""

from __future__ import annotations

import signal

import pytest

from cronpad_core.api import Delivered, Failed, Unknown


@pytest.mark.parametrize(
    ("command", "code", "number", "reason"),
    [
        ("kill -9 $$", 137, 9, "killed by signal 9 (SIGKILL)"),
        ("kill -TERM $$", 143, 15, "killed by signal 15 (SIGTERM)"),
        ("sh -c 'kill -9 $$'; exit $?", 137, None, "exit 137"),
        ("exit 3", 3, None, "exit 3"),
        ("no_such_cmd_xyz", 127, None, "exit 127: command not found"),
        ("/tmp", 126, None, "exit 126: command found but not executable"),
    ],
)
def test_a_shell_line_that_fails_keeps_its_code_and_its_signal(bench, command, code, number, reason):
    """B098: each way to fail is told apart, and none reads as success."""
    outcome = bench.run(command)
    assert isinstance(outcome, Failed)
    assert (outcome.exit_code, outcome.facts.get("signal"), outcome.reason) == (code, number, reason)
    assert outcome.retryable
    assert not outcome.undelivered


def test_exit_256_is_success(bench):
    """B098: the system keeps eight bits of an exit code, so 256 is 0, where the shell takes it at all."""
    outcome = bench.run(["python3", "-c", "import os; os._exit(256)"])
    assert isinstance(outcome, Delivered)
    assert outcome.exit_code == 0


def test_a_list_that_ends_with_127_is_not_called_a_missing_command(bench):
    """A program's own 127 is a number like others, and worth another try."""
    outcome = bench.run(["sh", "-c", "exit 127"])
    assert isinstance(outcome, Failed)
    assert (outcome.exit_code, outcome.reason, outcome.retryable, outcome.undelivered) == (127, "exit 127", True, False)


def test_text_on_stderr_is_no_failure(bench, output_of):
    """B099: the exit status decides; stderr is kept apart."""
    outcome = bench.run("echo fine; echo warning >&2; exit 0")
    assert isinstance(outcome, Delivered)
    assert (output_of(outcome), output_of(outcome, "stderr")) == ("fine\n", "warning\n")
    silent = bench.run("exit 1")
    assert isinstance(silent, Failed)
    assert [part.total for part in silent.output] == [0, 0]


def test_stdin_is_empty(bench, output_of):
    """B101: a command that reads its standard input is told at once that there is none."""
    outcome = bench.run("read x; echo rc=$?")
    assert isinstance(outcome, Delivered)
    assert output_of(outcome) == "rc=1\n"


def _script(tmp_path, content, mode=0o755):
    script = tmp_path / "script"
    script.write_text(content)
    script.chmod(mode)
    return str(script)


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (["no_such_cmd_xyz"], 127, "exec: no_such_cmd_xyz: command not found"),
        (["/no/such/cmd"], 127, "exec: /no/such/cmd: command not found"),
        (["/tmp"], 126, "exec: /tmp: Permission denied"),
        (["/dev/null/x"], 126, "exec: /dev/null/x: Not a directory"),
    ],
)
def test_a_list_that_cannot_be_started_is_a_failure_that_is_not_retried(bench, command, code, said):
    """127 and 126 are told apart without a shell too, and nothing was delivered."""
    outcome = bench.run(command)
    assert isinstance(outcome, Failed)
    assert (outcome.exit_code, outcome.reason) == (code, said)
    assert (outcome.retryable, outcome.undelivered) == (False, True)


def test_files_that_are_no_programs_are_told_apart(bench, tmp_path):
    """A missing interpreter, a file without the right and one without a first line each have their own reason."""
    missing = bench.run([_script(tmp_path, "#!/no/such/interpreter\n")])
    unreadable = bench.run([_script(tmp_path, "#!/bin/sh\n", mode=0o644)])
    shapeless = bench.run([_script(tmp_path, "echo hi\n")])
    assert [outcome.exit_code for outcome in (missing, unreadable, shapeless)] == [127, 126, 126]
    assert "interpreter" in missing.reason
    assert "Permission denied" in unreadable.reason
    assert "Exec format error" in shapeless.reason


@pytest.mark.parametrize("command", ["true", ["true"]])
def test_a_missing_working_directory_is_named(bench, command):
    """A bad ``cwd`` is no missing command."""
    outcome = bench.run(command, settings={"cwd": "/no/such/dir"})
    assert isinstance(outcome, Failed)
    assert (outcome.exit_code, outcome.retryable, outcome.undelivered) == (126, False, True)
    assert outcome.reason == "exec: working directory /no/such/dir: No such file or directory"


def test_the_working_directory_is_used(bench, output_of, tmp_path):
    """``cwd`` is where the command starts."""
    assert output_of(bench.run(["pwd", "-P"], settings={"cwd": str(tmp_path)})) == f"{tmp_path.resolve()}\n"


@pytest.mark.parametrize("bench", ["nursery", "plain"], indirect=True)
def test_a_stolen_exit_status_is_unknown_and_not_success(bench):
    """Where something else reaps our children, nobody knows how they ended: 0 would be a guess. A nursery's stay known."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        outcome = bench.run("exit 3")
    finally:
        signal.signal(signal.SIGCHLD, before)
    if not bench.plain:
        assert (type(outcome), outcome.exit_code) == (Failed, 3)
    else:
        assert (type(outcome), outcome.exit_code) == (Unknown, None)
