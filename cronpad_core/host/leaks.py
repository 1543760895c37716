"""Whether the settings of a plugin would show a secret to whoever prints them."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, TypeAdapter

__all__ = ["shows"]

_CANARY: Final = "cronpad-canary-4711"


def shows(model: type[BaseModel], key: str) -> bool:
    """Whether a text that is given for the key stands in what Python prints of the settings, as an error of a plugin would."""
    try:
        field = next(one for name, one in model.model_fields.items() if key in (name, one.alias))
        if field.annotation is None:
            return False
        kept = TypeAdapter(field.annotation).validate_python(_CANARY)
    except Exception:  # it takes no such text, so none can leak
        return False
    return _CANARY in repr(model.model_construct(**{key: kept}))
