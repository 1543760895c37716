"""Conformance suites: subclass one, give it its fixture, and every promise of the port is tested."""

from __future__ import annotations

from cronpad_testkit.suites.catalog import CatalogSuite
from cronpad_testkit.suites.emitter import AlertEmitterSuite, EmitterCase
from cronpad_testkit.suites.history import HistorySuite
from cronpad_testkit.suites.misfire import MisfirePolicySuite
from cronpad_testkit.suites.queue import QueueStoreSuite
from cronpad_testkit.suites.sink import SinkCase, SinkSuite
from cronpad_testkit.suites.storage import BuildStorage, NewState, StorageSuite
from cronpad_testkit.suites.suite import Suite

__all__ = [
    "AlertEmitterSuite",
    "BuildStorage",
    "CatalogSuite",
    "EmitterCase",
    "HistorySuite",
    "MisfirePolicySuite",
    "NewState",
    "QueueStoreSuite",
    "SinkCase",
    "SinkSuite",
    "StorageSuite",
    "Suite",
]
