"""Job specs as JSON text. Parsing one costs more than reading it, and the same few are read again and again."""

from __future__ import annotations

import json
from functools import lru_cache

from cronpad_core.api import JobSpec

__all__ = ["spec_of", "spec_text"]

_latest: list[tuple[JobSpec, str]] = []


@lru_cache(maxsize=2048)
def spec_of(text: str) -> JobSpec:
    """The spec that :func:`spec_text` wrote."""
    return JobSpec.from_json(json.loads(text))


def spec_text(spec: JobSpec) -> str:
    """The spec as compact JSON. A job and its version are written one after the other and share the object, so one is kept."""
    known = _latest[-1:]
    if known and known[0][0] is spec:
        return known[0][1]
    text = json.dumps(spec.to_json(), separators=(",", ":"))
    _latest[:] = [(spec, text)]
    return text
