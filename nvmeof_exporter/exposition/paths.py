"""Where the API answers: for the exporter, and for who asks it."""

from __future__ import annotations

__all__ = ["EVENTS_PATH", "STATUS_PATH"]

STATUS_PATH = "/api/v1/status"
EVENTS_PATH = "/api/v1/events"
