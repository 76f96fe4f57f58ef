"""What each command gets: the connected client, its options, and where to write."""

from __future__ import annotations

import argparse

from attrs import frozen

from .. import types
from ..client import Client
from ._notes import Notes
from ._output import Output

__all__ = ["Job"]


@frozen
class Job:
    """One command under way."""

    client: Client
    options: argparse.Namespace
    output: Output
    notes: Notes

    def wire(self, message: object) -> types.JSONValue:
        """Return a message, or a list of messages, as the agreed revision has it on the wire."""
        return types.unstructure(message, revision=self.client.revision)
