"""The commented jobs file that ``cronpad init`` writes: valid as it is."""

from __future__ import annotations

from typing import Final

__all__ = ["SAMPLE"]

SAMPLE: Final = """\
# A cronpad jobs file. Try it:  cronpad run jobs.toml
# Check it:  cronpad validate jobs.toml     See what comes next:  cronpad run --list jobs.toml
version = 1

# What every job starts from. All of it can be left out; a job's own key wins.
[defaults]
timezone = "UTC"          # an IANA name such as "Europe/Madrid"
timeout = "10m"           # durations: 250ms, 90s, 1h30m, 2d, 1w
overlap = "skip"          # a run that is due while the last one still runs: "skip", "queue_one", "cancel_running", or a
                          # table such as { policy = "allow", max = 5 }
misfire = "latest"        # after down time, run the newest missed one; a table adds { policy = "latest", window = "24h" }
retry = { max = 2, base = "1s", factor = 2, cap = "30s" }   # or just a number

[[jobs]]
name = "hello"
schedule = "*/5 * * * *"                     # minute hour day-of-month month day-of-week
command = "echo hello from cronpad"          # a text goes to sh -c

[[jobs]]
name = "weekday-report"
schedule = ["0 9 * * 1-5", "0 11 * * 6"]     # several schedules: all of them
command = ["date", "+%F"]                    # a list starts the program without a shell
timeout = "45s"
tags = ["report"]

[[jobs]]
name = "tidy"
schedule = "every 1h30m"                     # elapsed time; also: "@daily", "H 3 * * *", "at 2030-12-24T18:00"
command = "true"
jitter = "30s"                               # start up to 30 s later, the same for the same slot
retry = 0

# ${NAME}, ${NAME:-default} and ${NAME:?message} are filled from the environment in every text but commands, which
# belong to the shell. Secrets are references: "secret:env:NAME" or "secret:file:/run/secrets/name".
"""
