"""The values that are made for every fire: frozen as all others, but by the type checker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

__all__ = ["value"]

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """A dataclass with slots and keyword-only fields that nobody may change once it is made, compared and hashed by its fields.

    mypy holds it as frozen. The interpreter does not: looking after that costs a frozen class two thirds of the time in which it
    is made, and a fire makes some twenty of them. What goes to the code of others (deliveries, events) is frozen for good.
    """
    return dataclass(slots=True, kw_only=True, unsafe_hash=True)(cls)
