"""How the end of a call reads as an outcome: bounded, on one line, and without secrets."""

from __future__ import annotations

import json
import math
import traceback
from collections.abc import Callable

from cronpad_core.api import Delivered, Failed, JsonValue, StreamCapture
from cronpad_python.requests import DoNotRetry, RetryLater

__all__ = ["LeftError", "Mask", "raised", "returned"]

Mask = Callable[[str], str]
"""Takes the secrets out of a text."""

_LARGEST_RESULT = 16 * 1024
_LONGEST_REASON = 500
_TRACEBACK_BYTES = 16 * 1024


class LeftError(Exception):
    """The function wanted to end the process, which is not its to end."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"the function raised {type(error).__name__}({error})")


def returned(value: object, mask: Mask) -> Delivered:
    """The function returned; its value is kept where it is JSON and small enough."""
    if value is None:
        return Delivered()
    try:
        # A secret in it is masked as it would be written: without escapes, which a secret does not have.
        text = mask(json.dumps(value, allow_nan=False, ensure_ascii=False))
        kept: JsonValue = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        return Delivered(facts={"result_dropped": mask(f"no JSON: {type(value).__name__}: {error}")[:_LONGEST_REASON]})
    size = len(text.encode("utf-8", "backslashreplace"))
    if size > _LARGEST_RESULT:
        return Delivered(facts={"result_dropped": f"{size} bytes, more than {_LARGEST_RESULT}"})
    return Delivered(facts={"result": kept})


def raised(error: BaseException, mask: Mask) -> Failed:
    """The function raised; the reason names type and message, the end of the traceback is the output."""
    try:
        said = " ".join(str(error).split())
    except Exception:  # an exception whose own text raises
        said = "(its message cannot be read)"
    kind = type(error).__name__
    reason = mask(f"{kind}: {said}" if said else kind)[:_LONGEST_REASON]
    written = mask("".join(traceback.format_exception(error))).encode("utf-8", "backslashreplace")
    output = (StreamCapture(name="traceback", total=len(written), head=b"", tail=written[-_TRACEBACK_BYTES:]),)
    after_ms = math.ceil(error.seconds * 1_000) if isinstance(error, RetryLater) else None
    return Failed(
        reason=reason,
        retryable=not isinstance(error, DoNotRetry),
        retry_after_ms=after_ms,
        facts={"exception": kind},
        output=output,
    )
