"""What a sink may answer and a store may keep are not the same."""

from __future__ import annotations

import json

import pytest

from cronpad_core.domain.outcome import Delivered, Failed
from cronpad_core.host.answers import storable


def test_an_ordinary_answer_stays_as_it_is() -> None:
    """The very object, so that nothing is spent on it."""
    for answer in (Delivered(), Delivered(reason="fine"), Failed(reason="no", exit_code=3, facts={"http_status": 503})):
        assert storable(answer) is answer


@pytest.mark.parametrize(
    ("answer", "reason", "code", "facts"),
    [
        (Failed(reason="no such file: '\udcff'"), "no such file: '\\udcff'", None, {}),
        (Failed(reason="x" * 10_000), "x" * 4_096, None, {}),
        (Failed(reason="n", exit_code=2**70), "n", None, {}),
        (Failed(reason="n", facts={"set": {1}}), "n", None, {"set": "{1}"}),  # type: ignore[dict-item]  # as a plugin may
        (Failed(reason="n", facts={"nan": float("nan"), "ok": [1]}), "n", None, {"nan": "nan", "ok": [1]}),
    ],
)
def test_what_no_store_takes_is_written_out_or_left_away(answer: Failed, reason: str, code: int | None, facts: object) -> None:
    """Text becomes Unicode, numbers fit, facts are JSON; the kind of the outcome stays."""
    sound = storable(answer)
    assert (type(sound), sound.reason, sound.exit_code, sound.facts) == (Failed, reason, code, facts)
    json.dumps([sound.reason, sound.facts], allow_nan=False).encode("utf-8")
