"""What a connection holds, as one frozen object."""

from __future__ import annotations

from attrs import frozen

__all__ = ["ConnectionStatistics"]


@frozen(kw_only=True)
class ConnectionStatistics:
    """What a connection holds at one moment, for debugging."""

    asked: int
    """Our requests that wait for a response."""
    answering: int
    """The other side's requests that wait for one."""
    running: int
    """Handlers that run for the other side, those cleaning up after a cancellation included."""
    queued: int
    """The other side's requests that wait for a handler to end."""
    outbox_bytes: int
    """Bytes that wait to be sent."""
    update_bytes: int
    """Bytes of updates that wait to be read by callers of ours."""
    unmatched_responses: int
    """Responses since the beginning that nobody waited for: late, repeated or made up."""
    malformed: int
    """Lines since the beginning that were no message, and responses that broke a rule."""
