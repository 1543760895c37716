"""Job specs as JSON text. Parsing one costs more than reading it, and the same few are read again and again."""

from __future__ import annotations

import json
from collections import OrderedDict
from functools import lru_cache
from threading import Lock

from cronpad_core.api import JobSpec

__all__ = ["spec_of", "spec_text"]

_KEPT = 16_384
_texts: OrderedDict[int, tuple[JobSpec, str]] = OrderedDict()
_guard = Lock()


@lru_cache(maxsize=_KEPT)
def spec_of(text: str) -> JobSpec:
    """The spec that :func:`spec_text` wrote."""
    spec = JobSpec.from_json(json.loads(text))
    _keep(spec, text)
    return spec


def spec_text(spec: JobSpec) -> str:
    """The spec as compact JSON. A spec is written into several rows, and often was a row before, so texts are kept by object."""
    known = _texts.get(id(spec))
    if known is not None and known[0] is spec:
        return known[1]
    text = json.dumps(spec.to_json(), separators=(",", ":"))
    _keep(spec, text)
    return text


def _keep(spec: JobSpec, text: str) -> None:
    with _guard:
        _texts[id(spec)] = spec, text
        if len(_texts) > _KEPT:
            _texts.popitem(last=False)
