"""From an import path to a call that is ready to be made."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cronpad_core.api import Delivery, JsonValue

__all__ = ["Target", "UnusableTarget", "find_target"]

_ANNOTATIONS = (Delivery, "Delivery", "api.Delivery", "cronpad_core.api.Delivery")


class UnusableTarget(Exception):
    """The function cannot be called as the job says; trying again does not help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A function and how it is called. ``takes_delivery`` is the name of the parameter that gets the delivery."""

    path: str
    function: Callable[..., object]
    is_async: bool
    takes_delivery: str | None

    def arguments(self, args: Mapping[str, JsonValue], delivery: Delivery) -> dict[str, object]:
        """The keyword arguments of one call. Raises :class:`UnusableTarget` where the function does not take them."""
        given: dict[str, object] = dict(args)
        if self.takes_delivery is not None:
            given[self.takes_delivery] = delivery
        try:
            inspect.signature(self.function).bind(**given)
        except TypeError as error:
            raise UnusableTarget(f"{self.path} does not take the arguments of the job: {error}") from error
        return given


def find_target(path: str, runs_in: str | None) -> Target:
    """Imports the function. Raises :class:`UnusableTarget`, and whatever else its module raises when it is imported."""
    module_name, _, name = path.partition(":")
    try:
        found: object = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise UnusableTarget(f"{path} cannot be imported: {error}; is its folder on PYTHONPATH?") from error
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            raise UnusableTarget(f"{path} is not there: {error}") from error
    if not callable(found):
        raise UnusableTarget(f"{path} is {type(found).__name__}, which cannot be called")
    is_async = inspect.iscoroutinefunction(found)
    if runs_in is not None and (runs_in == "async") is not is_async:
        kind, right = ("an async def", "async") if is_async else ("a plain def", "thread")
        raise UnusableTarget(f'{path} is {kind}, which does not run in "{runs_in}"; write in = "{right}", or leave it out')
    return Target(path=path, function=found, is_async=is_async, takes_delivery=_delivery_parameter(path, found))


def _delivery_parameter(path: str, function: Callable[..., object]) -> str | None:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise UnusableTarget(f"the parameters of {path} cannot be read: {error}") from error
    for one in parameters:
        if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY) and (
            one.name == "delivery" or one.annotation in _ANNOTATIONS
        ):
            return one.name
    return None
