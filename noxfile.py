"""Every check has a name: ``nox -l`` lists them, ``nox -s NAME`` runs one. They need Python, Git and a package registry."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import tomllib
from pathlib import Path

import nox

nox.options.default_venv_backend = "venv"
nox.options.sessions = ["tests"]

ROOT = Path(__file__).parent
PROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
PLUGINS = sorted(path.parent for path in (ROOT / "plugins").glob("*/pyproject.toml"))
TESTED = [folder.name for folder in PLUGINS if any(folder.glob("tests/test_*.py"))]
EXAMPLES = sorted(path.parent for path in (ROOT / "docs" / "examples").glob("cronpad-*/pyproject.toml"))
PACKAGES = [
    "cronpad_core",
    *(str(path.parent.relative_to(ROOT)) for path in sorted(ROOT.glob("plugins/*/cronpad_*/__init__.py"))),
]
CLEAN = {"PYTHONSAFEPATH": "1", "CRONPAD_STATE": None, "CRONPAD_PLUGINS_DISABLED": None, "CRONPAD_PLUGINS_ONLY": None}
"""The environment of a session that must see what is installed, not this checkout."""


def group(*names: str) -> list[str]:
    """The requirements of dependency groups."""
    return nox.project.dependency_groups(PROJECT, *names)


def install_everything(session: nox.Session, *groups: str) -> None:
    """What a user installs from a checkout, and the tools of the groups."""
    session.install(".", *(f"./{folder.relative_to(ROOT)}/" for folder in PLUGINS), *group(*groups))


def build_wheels(session: nox.Session, *folders: Path) -> list[str]:
    """Builds a wheel of each folder, and answers their paths."""
    out = Path(session.create_tmp()) / "wheels"
    shutil.rmtree(out, ignore_errors=True)
    for folder in folders:
        session.run("python", "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(out), str(folder))
    return [str(path) for path in sorted(out.glob("*.whl"))]


def pytest(session: nox.Session, *arguments: str, **options: object) -> None:
    """Runs pytest on what is given, or on what follows ``--`` on the command line."""
    session.run("pytest", *(session.posargs or arguments), env=CLEAN, **options)  # type: ignore[arg-type]  # nox's own


@nox.session
def tests(session: nox.Session) -> None:
    """All tests that a change must pass, in one environment: the command that the README names."""
    install_everything(session, "test", "check")
    failed = [name for name, check in (("lint", ruff), ("types", mypy)) if not check(session)]
    pytest(session)
    if failed:
        session.error(f"pytest passed; failed: {', '.join(failed)}")


@nox.session
def ci(session: nox.Session) -> None:
    """What ``.ci/run`` does besides ``tests``: each plugin and the example in clean environments."""
    for name in TESTED:
        session.notify(f"plugin(name='{name}')")
    session.notify("examples")


def ruff(session: nox.Session) -> bool:
    """Whether style and banned names are as agreed."""
    style = session.run("ruff", "check", ".", success_codes=[0, 1, 2], silent=True)
    shape = session.run("ruff", "format", "--check", ".", success_codes=[0, 1, 2], silent=True)
    good = "All checks passed!" in str(style) and "would be reformatted" not in str(shape)
    if not good:
        session.warn(f"{style}\n{shape}")
    return good


def mypy(session: nox.Session) -> bool:
    """Whether everything that is shipped is typed, strictly."""
    answer = session.run("mypy", *PACKAGES, success_codes=[0, 1, 2], silent=True)
    good = "Success: no issues" in str(answer)
    session.log(str(answer).strip()) if good else session.warn(str(answer))
    return good


@nox.session
def lint(session: nox.Session) -> None:
    """Style, banned names, formatting."""
    session.install(*group("check"))
    session.run("ruff", "check", *session.posargs, ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """mypy, strictly, over everything that is shipped."""
    install_everything(session, "check")
    session.run("mypy", *PACKAGES)


@nox.session
def unit(session: nox.Session) -> None:
    """The unit tests alone."""
    install_everything(session, "test")
    pytest(session, "tests/unit")


@nox.session
def contracts(session: nox.Session) -> None:
    """What may import what, sizes, documents: the house keeps its own rules."""
    install_everything(session, "test")
    pytest(session, "tests/contracts")


@nox.session
@nox.parametrize("name", TESTED)
def plugin(session: nox.Session, name: str) -> None:
    """Wheels of the core and one plugin in a clean environment, where undeclared dependencies show; the plugin's tests."""
    needed = {name, "cronpad-testkit"} & {folder.name for folder in PLUGINS}
    wheels = build_wheels(session, ROOT, *(ROOT / "plugins" / one for one in sorted(needed)))
    session.install(*wheels, *group("plugin"))
    session.run("python", "-m", "pip", "check")
    pytest(session, f"plugins/{name}/tests")


@nox.session(venv_backend="none")
def examples(session: nox.Session) -> None:
    """The third-party plugins of docs/examples, each in a session of its own."""
    for folder in EXAMPLES:
        session.notify(f"example(name='{folder.name}')")


@nox.session
@nox.parametrize("name", [folder.name for folder in EXAMPLES])
def example(session: nox.Session, name: str) -> None:
    """A third-party plugin: as its page shows it, built, installed with our wheels in a clean environment, tested, run."""
    folder = ROOT / "docs" / "examples" / name
    compare_pages(session, folder)
    ours = (ROOT, *(ROOT / "plugins" / plugin for plugin in ("cronpad-sql", "cronpad-command", "cronpad-testkit")))
    session.install(*build_wheels(session, *ours, folder), *group("plugin"))
    session.run("python", "-m", "pip", "check")
    session.chdir(folder)
    session.run("pytest", "tests", env=CLEAN)
    for plugin in nox.project.load_toml(folder / "pyproject.toml")["project"]["entry-points"]["cronpad"]:
        session.run("cronpad", "plugin", "show", plugin, env=CLEAN)
    job = tomllib.loads(Path("jobs.toml").read_text(encoding="utf-8"))["jobs"][0]["name"]
    with tempfile.TemporaryDirectory() as state:
        session.run("cronpad", "validate", "jobs.toml", env=CLEAN)
        session.run("cronpad", "run", "--once", job, "--state", state, "jobs.toml", env=CLEAN)


def compare_pages(session: nox.Session, folder: Path) -> None:
    """Fails where a page on an example shows other code than its files have; a block names its file after its language."""
    for page in sorted((ROOT / "docs" / "how-to").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        if f"(../examples/{folder.name}/" not in text:
            continue
        blocks = re.findall(r"^```\w+ (\S+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        wrong = [name for name, code in blocks if code not in (folder / name).read_text(encoding="utf-8")]
        session.log(f"{page.name} shows {len(blocks)} parts of files of {folder.name}")
        if wrong:
            session.error(f"{page.name} does not show these files as they are: {', '.join(wrong)}")


@nox.session
def demo(session: nox.Session) -> None:
    """The README's first command for twelve seconds, in an environment of its own: jobs run, and a stop is clean."""
    install_everything(session)
    with tempfile.TemporaryDirectory() as state:
        command = [str(Path(session.bin) / "cronpad"), "run", "--state", state, "docs/examples/jobs.json"]
        running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        time.sleep(float(session.posargs[0]) if session.posargs else 12)
        running.send_signal(signal.SIGTERM)
        shown, _ = running.communicate(timeout=60)
    session.log(shown)
    if running.returncode != 0 or not shown.strip():
        session.error(f"cronpad run ended with {running.returncode} after {len(shown.splitlines())} lines")


@nox.session
def docs(session: nox.Session) -> None:
    """The documents against the code, and the changelog's fragments."""
    install_everything(session, "test")
    session.install("towncrier>=26")
    session.run("towncrier", "build", "--draft", "--version", PROJECT["project"]["version"])
    session.run("pytest", "tests/contracts/test_documents.py", "tests/contracts/test_links.py", env=CLEAN)


@nox.session
def reference(session: nox.Session) -> None:
    """Writes docs/reference/commands.md anew, from the commands themselves."""
    install_everything(session)
    session.run("python", "tests/contracts/commands_page.py", env=CLEAN | {"PYTHONSAFEPATH": None})


@nox.session(venv_backend="none")
def version(session: nox.Session) -> None:
    """Writes a version, given after ``--``, into every pyproject.toml and every pin: ``nox -s version -- 0.2.0``."""
    (new,) = session.posargs
    old = re.escape(PROJECT["project"]["version"])
    for folder in (ROOT, *PLUGINS):
        path = folder / "pyproject.toml"
        text = re.sub(rf'^version = "{old}"', f'version = "{new}"', path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        path.write_text(re.sub(rf'("cronpad[a-z-]*==){old}"', rf'\g<1>{new}"', text), encoding="utf-8")
        session.log(f"{os.path.relpath(path)}: {tomllib.loads(path.read_text(encoding='utf-8'))['project']['version']}")


if (ROOT / "tests" / "conformance").is_dir():

    @nox.session
    def conformance(session: nox.Session) -> None:
        """The suites of the test kit on the stores that are shipped."""
        install_everything(session, "test")
        pytest(session, "tests/conformance", *(f"plugins/{name}/tests" for name in TESTED))


if (ROOT / "tests" / "e2e").is_dir():

    @nox.session
    def e2e(session: nox.Session) -> None:
        """Real processes: kills, restarts, take-overs."""
        install_everything(session, "test")
        pytest(session, "tests/e2e")


if (ROOT / "tests" / "simulation").is_dir():

    @nox.session
    def simulation(session: nox.Session) -> None:
        """The line on virtual time, with faults between any two steps; ``-- 1000`` plays a thousand seeds instead of the tests."""
        install_everything(session, "test")
        if session.posargs:
            session.run("python", "tests/simulation/seeds.py", *session.posargs)
        else:
            pytest(session, "tests/simulation")


if (ROOT / "tests" / "chaos").is_dir():

    @nox.session
    def chaos(session: nox.Session) -> None:
        """Real faults on real runners, for hours: ``-- --kills 500 --faults 1000000 --minutes 60 --report FILE``."""
        install_everything(session, "test")
        session.run("python", "tests/chaos/session.py", *session.posargs, env=CLEAN | {"PYTHONSAFEPATH": None})


@nox.session
def bench(session: nox.Session) -> None:
    """The measurements: each script prints its own table."""
    install_everything(session, "test")
    for script in sorted((ROOT / "tests" / "benchmarks").glob("[!_]*.py")):
        session.run("python", str(script), env=CLEAN)
