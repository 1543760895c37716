"""What a plugin's settings model refuses, in words."""

from __future__ import annotations

from pydantic import ValidationError

__all__ = ["refusals_of"]


def refusals_of(error: ValidationError) -> str:
    """Each refusal with its place, without the values: one of them may be a secret."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(str(part) for part in one['loc']) or 'settings'}: {one['msg']}" for one in found)
