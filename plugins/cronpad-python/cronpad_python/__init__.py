"""Python functions as cronpad jobs."""

from __future__ import annotations

from cronpad_python.requests import DoNotRetry, RetryLater

__all__ = ["DoNotRetry", "RetryLater"]
