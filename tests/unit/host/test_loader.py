"""Loading plugins: each entry point is guarded, and what is odd about one is said with its name."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from cronpad_core.api import PluginError
from cronpad_core.host import PluginHost, PluginState, load_plugins

Install = Callable[..., None]

GOOD = """
@hookimpl
def cronpad_register_sinks():
    return [sink("good")]
"""


def state_of(host: PluginHost, name: str) -> PluginState:
    found = host.plugin(name)
    assert found is not None
    return found.state


def reason_of(host: PluginHost, name: str) -> str:
    found = host.plugin(name)
    assert found is not None
    return found.reason


@pytest.mark.usefixtures("site")
def test_the_core_comes_through_the_same_door() -> None:
    """Without any other plugin there are the four misfire policies, from an entry point of cronpad-core."""
    host = load_plugins({})
    assert [(one.name, one.distribution, one.version, one.state) for one in host.plugins] == [
        ("builtin", "cronpad-core", "9.9", PluginState.LOADED)
    ]
    assert set(host.registry.misfire_models()) == {"latest", "earliest", "all", "skip"}
    assert host.notes == ()


def test_a_good_plugin_is_loaded_with_its_facts(install: Install) -> None:
    """State, distribution, version, load time and types are recorded."""
    install("cronpad-good", GOOD, version="2.3")
    host = load_plugins({})
    found = host.plugin("good")
    assert found is not None
    assert (found.distribution, found.version, found.api) == ("cronpad-good", "2.3", 1)
    assert found.load_ms > 0
    assert found.types == (("sink", "good"),)
    assert host.registry.has_sink("good")
    assert host.registry.sink("good").doc == "A sink for tests."


BROKEN = {
    "import-error": ("import no_such_module_at_all", "ModuleNotFoundError: No module named"),
    "syntax-error": ("def (:", "SyntaxError"),
    "exit-at-import": ("raise SystemExit(3)", "SystemExit: 3"),
    "base-exception": ("raise BaseException('odd')", "BaseException: odd"),
    "raising-hook": ("@hookimpl\ndef cronpad_register_sinks():\n    raise ValueError('bad port')", "ValueError: bad port"),
    "exiting-hook": ("@hookimpl\ndef cronpad_register_storage():\n    raise SystemExit", "SystemExit"),
    "interrupting-hook": ("@hookimpl\ndef cronpad_register_sinks():\n    raise KeyboardInterrupt", "KeyboardInterrupt"),
    "async-hook": ("@hookimpl\nasync def cronpad_register_sinks():\n    return []", "is 'async def'"),
    "wrapper-hook": ("@hookimpl(wrapper=True)\ndef cronpad_register_sinks():\n    return (yield)", "is a wrapper"),
    "wrong-arguments": ("@hookimpl\ndef cronpad_register_sinks(config):\n    return []", "config"),
    "answers-none": ("@hookimpl\ndef cronpad_register_sinks():\n    pass", "answered None, not a list"),
    "answers-text": ("@hookimpl\ndef cronpad_register_sinks():\n    return 'x'", "not a list"),
    "answers-object": ("@hookimpl\ndef cronpad_register_sinks():\n    return [sink('x')(None)]", "which is no class"),
    "no-name": ("S = sink(None)\n@hookimpl\ndef cronpad_register_sinks():\n    return [S]", ".name is None"),
    "odd-name": ("@hookimpl\ndef cronpad_register_sinks():\n    return [sink('A b')]", ".name is 'A b'"),
    "no-api": ("@hookimpl\ndef cronpad_register_sinks():\n    return [sink('x', None)]", "states no API number"),
    "no-verb": ("S = sink('x')\ndel S.deliver\n@hookimpl\ndef cronpad_register_sinks():\n    return [S]", "no method 'deliver'"),
    "odd-settings": (
        "S = sink('x')\nS.Settings = dict\n@hookimpl\ndef cronpad_register_sinks():\n    return [S]",
        "no pydantic model",
    ),
    "odd-words": (
        "S = sink('x')\nS.capabilities = 'ab'\n@hookimpl\ndef cronpad_register_sinks():\n    return [S]",
        "capabilities",
    ),
    "twice": ("@hookimpl\ndef cronpad_register_sinks():\n    return [sink('x'), sink('x')]", "registers sink 'x' twice"),
    "odd-scheme": (
        "class S:\n    api = 1\n    schemes = 'sqlite'\n    def open(self): ...\n"
        "@hookimpl\ndef cronpad_register_storage():\n    return [S]",
        ".schemes is no list",
    ),
    "unprintable": (
        "class E(Exception):\n    def __str__(self):\n        raise RuntimeError\nraise E",
        "its message cannot be read",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_plugin_costs_its_own_types_only(install: Install, kind: str) -> None:
    """Whatever a plugin does wrong, it is failed with a reason and the others are loaded."""
    source, reason = BROKEN[kind]
    install("cronpad-broken", source)
    install("cronpad-zgood", GOOD)
    host = load_plugins({})
    assert state_of(host, "broken") is PluginState.FAILED
    assert reason in reason_of(host, "broken")
    assert state_of(host, "zgood") is PluginState.LOADED
    assert host.registry.has_sink("good")
    assert len(host.notes) == 1
    assert host.notes[0].startswith("plugin broken (cronpad-broken) is failed: ")
    assert "broken" in host.registry.unavailable()
    with pytest.raises(PluginError, match="broken"):
        load_plugins({"CRONPAD_STRICT_PLUGINS": "1"})


def test_nothing_of_a_plugin_is_used_when_a_later_hook_of_it_raises(install: Install) -> None:
    """A sink that was offered before the failure is not registered, but known as unavailable."""
    install("cronpad-half", GOOD + "\n@hookimpl\ndef cronpad_register_storage():\n    raise ValueError('later')\n")
    host = load_plugins({})
    assert not host.registry.has_sink("good")
    assert "ValueError: later" in host.registry.unavailable()["good"]
    with pytest.raises(PluginError, match=r"sink 'good' cannot be used: plugin half .* is failed: ValueError: later"):
        host.registry.sink("good")


def test_another_api_number_is_incompatible(install: Install) -> None:
    """The reason names both numbers."""
    install("cronpad-old", "@hookimpl\ndef cronpad_register_sinks():\n    return [sink('x', 2)]")
    host = load_plugins({})
    assert state_of(host, "old") is PluginState.INCOMPATIBLE
    assert "API 2" in reason_of(host, "old")
    assert "API 1" in reason_of(host, "old")


@pytest.mark.parametrize(
    ("source", "note"),
    [
        (
            "@hookimpl\ndef cronpad_evnt(event): ...",
            "there is no hook cronpad_evnt, so it is never called; did you mean cronpad_event?",
        ),
        ("def cronpad_stoping(owner): ...", "there is no hook cronpad_stoping"),
        ("def cronpad_event(event): ...", "function cronpad_event has no @hookimpl"),
        ("@hookimpl\nasync def cronpad_event(event): ...", "cronpad_event is 'async def'"),
        ("@hookimpl(wrapper=True)\ndef cronpad_event(event):\n    yield", "cronpad_event is a wrapper"),
    ],
)
def test_a_hook_that_nobody_would_call_is_noted(install: Install, source: str, note: str) -> None:
    """The plugin is loaded all the same; the strict switch refuses it."""
    install("cronpad-odd", f"{GOOD}\n{source}\n")
    host = load_plugins({})
    assert state_of(host, "odd") is PluginState.LOADED
    assert len(host.notes) == 1
    assert note in host.notes[0]
    assert host.notes[0].startswith("plugin odd (cronpad-odd): ")
    assert host.calls_of("cronpad_event") == ()
    with pytest.raises(PluginError):
        load_plugins({"CRONPAD_STRICT_PLUGINS": "true"})


def test_imported_names_and_optional_hooks_are_no_misspelling(install: Install) -> None:
    """Only functions of the plugin itself count, and ``optionalhook`` says that a hook may be unknown."""
    source = "import functools as cronpad_tools\n@hookimpl(optionalhook=True)\ndef cronpad_future(x): ..."
    install("cronpad-fine", source)
    assert load_plugins({}).notes == ()


def test_a_name_that_two_distributions_claim_stops_the_start(install: Install) -> None:
    """Both are named; for a report the clash is listed instead; switching one off mends it."""
    install("cronpad-one", GOOD)
    install("cronpad-two", GOOD)
    with pytest.raises(PluginError, match="sink 'good' is claimed by two distributions: cronpad-one and cronpad-two") as caught:
        load_plugins({})
    assert caught.value.exit_code == 5
    assert len(load_plugins({}, for_report=True).clashes) == 1
    host = load_plugins({"CRONPAD_PLUGINS_DISABLED": "cronpad_two"})
    assert state_of(host, "two") is PluginState.DISABLED


def test_a_policy_of_the_core_cannot_be_replaced(install: Install) -> None:
    """The core's own names are names that two distributions claim like any other."""
    install(
        "cronpad-sly",
        "class L:\n    name = 'latest'\n    api = 1\n    def decide(self, window): ...\n"
        "@hookimpl\ndef cronpad_register_misfire_policies():\n    return [L]",
    )
    with pytest.raises(PluginError, match=r"misfire policy 'latest' .*: cronpad-core and cronpad-sly"):
        load_plugins({})


def test_two_plugins_of_one_name_clash(install: Install) -> None:
    """Entry points of the same name cannot be told apart by the switches."""
    install("cronpad-one", GOOD, name="same")
    install("cronpad-two", "", name="same")
    with pytest.raises(PluginError, match="plugin name 'same' is claimed by two distributions: cronpad-one and cronpad-two"):
        load_plugins({})


def test_the_switches_choose(install: Install) -> None:
    """Disabled, only and --no-plugins leave the core's own in; nothing of what is off is imported."""
    install("cronpad-a", GOOD)
    install("cronpad-b", "raise SystemExit")
    assert load_plugins({"CRONPAD_PLUGINS_DISABLED": " B ,"}).notes == ()
    only = load_plugins({"CRONPAD_PLUGINS_ONLY": "cronpad-a"})
    assert [one.state.value for one in only.plugins] == ["loaded", "loaded", "disabled"]
    none = load_plugins({}, disabled_all=True)
    assert [one.state.value for one in none.plugins] == ["loaded", "disabled", "disabled"]
    assert reason_of(none, "b") == "--no-plugins"
    assert "plugin a (cronpad-a) is disabled" in none.registry.unavailable()["a"]
    assert state_of(load_plugins({}, builtin=False), "builtin") is PluginState.DISABLED
    assert state_of(load_plugins({"CRONPAD_PLUGINS_DISABLED": "builtin"}), "builtin") is PluginState.DISABLED


def test_a_switch_that_names_no_plugin_is_said(install: Install) -> None:
    """With the name that was probably meant."""
    install("cronpad-webhook", GOOD)
    notes = load_plugins({"CRONPAD_PLUGINS_DISABLED": "webhok"}).notes
    assert notes == ("CRONPAD_PLUGINS_DISABLED names 'webhok', which is no installed plugin; did you mean 'webhook'?",)


def test_a_hook_that_hangs_is_left_behind(install: Install) -> None:
    """The plugin is failed after the deadline, and the start goes on."""
    source = """
    import threading
    release = threading.Event()
    @hookimpl
    def cronpad_register_sinks():
        release.wait(60)
        return []
    """
    install("cronpad-hang", source)
    host = load_plugins({}, deadline_s=0.05)
    assert state_of(host, "hang") is PluginState.FAILED
    assert reason_of(host, "hang") == "Overdue: no answer within 0.05 s"
    import plug_cronpad_hang  # type: ignore[import-not-found]  # made above

    plug_cronpad_hang.release.set()


def test_an_import_that_hangs_is_left_behind(install: Install) -> None:
    """The plugin is failed after the deadline, and the others are loaded."""
    install("cronpad-hang", "import threading, sys\nsys.release = threading.Event()\nsys.release.wait(60)")
    install("cronpad-zgood", GOOD)
    host = load_plugins({}, deadline_s=1.0)
    sys.release.set()  # type: ignore[attr-defined]  # made above
    assert reason_of(host, "hang") == "Overdue: no answer within 1 s"
    assert host.registry.has_sink("good")


def test_an_interrupt_of_the_plugins_own_is_its_failure(install: Install) -> None:
    """KeyboardInterrupt raised at import is no person's: the plugin is failed, the start goes on."""
    install("cronpad-slow", "raise KeyboardInterrupt")
    host = load_plugins({})
    assert state_of(host, "slow") is PluginState.FAILED
    assert "raised by the plugin itself" in reason_of(host, "slow")


def test_the_interrupt_of_a_person_is_not_swallowed(install: Install) -> None:
    """SIGINT while a module is imported ends the start."""
    source = """
    import os, signal, sys, threading
    sys.release = threading.Event()
    os.kill(os.getpid(), signal.SIGINT)
    sys.release.wait(60)
    """
    install("cronpad-slow", source)
    with pytest.raises(KeyboardInterrupt):
        load_plugins({})
    sys.release.set()  # type: ignore[attr-defined]  # made above


def test_damaged_metadata_hides_no_other_plugin(install: Install, site: Path) -> None:
    """An entry-point file that cannot be read is one note."""
    install("cronpad-good", GOOD)
    info = site / "aaa-1.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_bytes(b"\xff\xfe[cronpad]")
    host = load_plugins({})
    assert state_of(host, "good") is PluginState.LOADED
    assert len(host.notes) == 1
    assert "cannot be read: UnicodeDecodeError" in host.notes[0]


def test_hook_calls_are_traced(install: Install) -> None:
    """With hook, plugin, milliseconds and what was raised."""
    install("cronpad-bad", "@hookimpl\ndef cronpad_register_sinks():\n    raise ValueError('no')")
    seen: list[tuple[str, str, float, str | None]] = []
    load_plugins({}, trace=lambda *told: seen.append(told))
    told = [(hook, plugin, raised) for hook, plugin, _, raised in seen]
    assert ("cronpad_register_misfire_policies", "builtin", None) in told
    assert told[-1] == ("cronpad_register_sinks", "bad", "ValueError: no")
    assert all(ms >= 0 for _, _, ms, _ in seen)


def test_unknown_types_say_what_to_install(install: Install) -> None:
    """For cronpad's own packages the command, from an index and from a checkout; else what is known or was meant."""
    install("cronpad-good", GOOD)
    registry = load_plugins({}).registry
    for kind, look, package in (("sink", "command", "cronpad-command"), ("storage", "sqlite", "cronpad-sql")):
        with pytest.raises(PluginError) as caught:
            registry.sink(look) if kind == "sink" else registry.storage(look)
        assert f"pip install {package} (" in str(caught.value.hint)
        assert f"pip install ./plugins/{package}" in str(caught.value.hint)
        assert look in registry.unavailable()
    with pytest.raises(PluginError, match="unknown misfire policy 'lates'; known: all, earliest, latest, skip") as caught:
        registry.misfire("lates")
    assert caught.value.hint == "did you mean 'latest'?"
    with pytest.raises(PluginError, match="unknown sink 'nope'; known: good"):
        registry.sink("nope")
    with pytest.raises(PluginError) as caught:
        registry.sink("comand")
    assert "did you mean 'command'? pip install cronpad-command" in str(caught.value.hint)


def test_no_thread_is_left_by_a_start(install: Install) -> None:
    """Registration hooks run in threads that end with them."""
    install("cronpad-good", GOOD)
    load_plugins({})
    assert not [one for one in threading.enumerate() if one.name == "cronpad-hook"]
