"""The hooks that a plugin may implement. pluggy asks them at start-up; afterwards the engine holds plain objects by name.

Hooks are asked one implementation at a time: one that raises or answers nonsense is reported with its plugin's name and the
others are still asked. Since: the version in which the hook appeared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from cronpad_core.domain.events import Event
    from cronpad_core.ports.alerts import AlertEmitter
    from cronpad_core.ports.misfire import MisfirePolicy
    from cronpad_core.ports.sink import Sink
    from cronpad_core.ports.storage import Storage

__all__ = ["ENTRY_POINT_GROUP", "HOOK_NAMESPACE", "CronpadSpecs", "hookimpl", "hookspec"]

HOOK_NAMESPACE = "cronpad"
ENTRY_POINT_GROUP = "cronpad"

hookspec = pluggy.HookspecMarker(HOOK_NAMESPACE)
hookimpl = pluggy.HookimplMarker(HOOK_NAMESPACE)
"""Marks a function of a plugin as the implementation of the hook of its name."""


class CronpadSpecs:
    """All hooks, in the order in which a start asks them."""

    @hookspec
    def cronpad_register_sinks(self) -> Sequence[type[Sink]]:  # type: ignore[empty-body]  # a specification has no body
        """Which sink types this plugin brings.

        *When*: once, at start-up, before any jobs file is read. *Place*: not on the line. *Returns*: sink classes, each with
        ``name``, ``api``, ``Settings``, ``capabilities`` and ``deliver``. *Answers*: all are taken; a name that two
        distributions claim stops the start, naming both. *When it raises*: the plugin is ``failed``; jobs that use its types
        are shown in error, others run. *Who*: any plugin. *Since*: 0.1.
        """

    @hookspec
    def cronpad_register_misfire_policies(self) -> Sequence[type[MisfirePolicy]]:  # type: ignore[empty-body]  # as above
        """Which misfire policies this plugin brings.

        *When*: once, at start-up. *Place*: not on the line; the policy's ``decide`` is called by gate 1. *Returns*: classes,
        each with ``name``, ``api``, ``Settings`` and a pure ``decide``. *Answers*: all are taken; a clash stops the start.
        *When it raises*: the plugin is ``failed``. *Who*: any plugin. *Since*: 0.1.
        """

    @hookspec
    def cronpad_register_alert_emitters(self) -> Sequence[type[AlertEmitter]]:  # type: ignore[empty-body]  # as above
        """Which alert emitters this plugin brings.

        *When*: once, at start-up. *Place*: not on the line. *Returns*: classes, each with ``name``, ``api``, ``Settings`` and
        ``emit``. *Answers*: all are taken; a clash stops the start. *When it raises*: the plugin is ``failed``. *Who*: any
        plugin. *Since*: 0.1.
        """

    @hookspec
    def cronpad_register_storage(self) -> Sequence[type[Storage]]:  # type: ignore[empty-body]  # as above
        """Which storage backends this plugin brings, by URL scheme.

        *When*: once, at start-up, before the state is opened. *Place*: not on the line. *Returns*: classes, each with
        ``schemes``, ``api`` and ``open``. *Answers*: all are taken; a clash stops the start. *When it raises*: the plugin is
        ``failed``; a state of its scheme cannot be opened (exit 5). *Who*: any plugin. *Since*: 0.1.
        """

    @hookspec
    def cronpad_started(self, owner: str) -> None:
        """A process has become the active dispatcher; ``owner`` names it.

        *When*: after start-up repair, before the first claim. *Place*: beside the line. *Returns*: nothing. *Answers*: all are
        called. *When it raises*: logged with the plugin's name; nothing else. *Who*: any plugin. *Since*: 0.1.
        """

    @hookspec
    def cronpad_stopping(self, owner: str) -> None:
        """The process stops claiming; running deliveries may still finish.

        *When*: once, at the start of a graceful stop. *Place*: beside the line. *Returns*: nothing. *Answers*: all are called.
        *When it raises*: logged with the plugin's name; nothing else. *Who*: any plugin. *Since*: 0.1.
        """

    @hookspec
    def cronpad_event(self, event: Event) -> None:
        """Something happened (see the reference of events).

        *When*: soon after, in order, from a bounded queue. *Place*: never on the line. *Returns*: nothing. *Answers*: all are
        called. *When it raises or hangs*: logged; an observer that keeps failing is no longer called. *Who*: any plugin.
        *Since*: 0.1.
        """
