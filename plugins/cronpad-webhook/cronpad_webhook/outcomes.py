"""What an answer means for its run."""

from __future__ import annotations

from typing import assert_never

from cronpad_core.api import Delivered, Failed, JsonValue, Outcome, StreamCapture
from cronpad_webhook.exchange import Answer
from cronpad_webhook.redaction import Redactor, shown_url
from cronpad_webhook.retry_after import retry_after_ms
from cronpad_webhook.settings import Settings
from cronpad_webhook.statuses import Meaning, meaning_of

__all__ = ["GONE", "outcome_of"]

GONE = "gone"
"""The reason of a pause when the receiver says that nobody is there any more."""

_SHOWN = 200


def outcome_of(answer: Answer, settings: Settings, redactor: Redactor, *, shown: str, now: float) -> Outcome:
    """The outcome of a request that was answered. What is kept of the answer holds none of the secrets."""
    meaning = meaning_of(answer.status, settings.statuses)
    facts = _facts(answer, redactor, shown)
    kept = redactor.data(answer.body)[: settings.response_kept]
    output = (StreamCapture(name="response", total=answer.read, head=kept),) if answer.read else ()
    reason = f"HTTP {answer.status}"
    if "location" in facts:
        reason += f" to {facts['location']}, which is not followed"
    match meaning:
        case Meaning.OK:
            return Delivered(facts=facts, output=output)
        case Meaning.GONE:
            return Failed(reason=reason, facts=facts, output=output, retryable=False, pause=GONE)
        case Meaning.FAIL:
            return Failed(reason=reason, facts=facts, output=output, retryable=False)
        case Meaning.RETRY:
            wait_ms = retry_after_ms(answer.headers.get("retry-after"), now=now)
            return Failed(reason=reason, facts=facts, output=output, retry_after_ms=wait_ms)
        case _:
            assert_never(meaning)


def _facts(answer: Answer, redactor: Redactor, shown: str) -> dict[str, JsonValue]:
    facts: dict[str, JsonValue] = {"http_status": answer.status, "url": shown}
    if answer.hops:
        facts["redirects"] = answer.hops
    if not answer.complete:
        facts["response_truncated"] = True
    for name in ("content-type", "retry-after"):
        if name in answer.headers:
            facts[name.replace("-", "_")] = redactor.text(answer.headers[name])[:_SHOWN]
    if answer.status // 100 == 3 and "location" in answer.headers:
        facts["location"] = _place(redactor.text(answer.headers["location"]))
    return facts


def _place(location: str) -> str:
    shown = shown_url(location, secret=False) if "://" in location else location.partition("?")[0]
    return "".join(character if character.isprintable() else "?" for character in shown[:_SHOWN])
