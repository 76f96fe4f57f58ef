"""One attack, in a process of its own: ``python -m siege.attacker NAME FOLDER PORT SECONDS``.

It prints what it saw, as JSON. It has the lowest priority, so that on a small machine the server is
attacked, and not the processor.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Mapping
from pathlib import Path

import trio

from .attacks_by_calls import connection_storm, exceptions, open_questions, parked_questions, slow_calls, slow_threads
from .attacks_by_connections import (
    idle_connections,
    rapid_resets,
    sessions,
    slow_heads,
    unfinished_bodies,
    unread_answers,
    unread_http2_answers,
)
from .attacks_on_identity import (
    cross_site,
    framed_twice,
    garbage_tokens,
    locked_store,
    preflights,
    proofs,
    theft,
)
from .people import PATH
from .place import Attack, Place

__all__ = ["ATTACKS", "EXCEPTIONS", "HOSTILE_SCHEMAS", "STUBBORN"]

EXCEPTIONS = "exceptions"
"""The attack whose every call is a failure of the server's own code."""
STUBBORN = "stubborn"
"""The call of a handler that cannot be stopped, for the stop of the server."""
_BEGIN_SECONDS = 1.0
"""The seconds for the begin of a handler."""

HOSTILE_SCHEMAS = "hostile schemas"
"""The attack that the ordinary user meets by using the tools of a hostile server."""


async def hostile_schemas(_: Place) -> None:
    """Wait: the ordinary user calls the hostile server meanwhile."""
    await trio.sleep_forever()


async def stubborn_handlers(place: Place) -> None:
    """Call a handler that cannot be stopped."""
    async with place.attacker.connect() as connection:
        fields, body = place.attacker.call("stubborn")
        await connection.begin("POST", PATH, fields, body)
        await trio.sleep(_BEGIN_SECONDS)
        print("ready", flush=True)
        while await connection.receive():
            pass


ATTACKS: Mapping[str, Attack] = {
    EXCEPTIONS: exceptions,
    "slow calls": slow_calls,
    "connection storm": connection_storm,
    "slow threads": slow_threads,
    "open questions": open_questions,
    "parked questions": parked_questions,
    "idle connections": idle_connections,
    "slow heads": slow_heads,
    "unfinished bodies": unfinished_bodies,
    "unread answers": unread_answers,
    "unread HTTP/2 answers": unread_http2_answers,
    "rapid resets": rapid_resets,
    "sessions": sessions,
    "garbage tokens": garbage_tokens,
    "proofs": proofs,
    "theft": theft,
    "cross-site": cross_site,
    "framed twice": framed_twice,
    "preflights": preflights,
    "locked store": locked_store,
    HOSTILE_SCHEMAS: hostile_schemas,
}
"""The attacks, in their order."""


async def run(attack: Attack, place: Place) -> None:
    """Attack for a while, and print what was seen."""
    with trio.move_on_after(place.seconds):
        await attack(place)
    print(json.dumps(place.attacker.seen.json()), flush=True)


def main(name: str, folder: str, port: str, seconds: str) -> None:
    """Attack."""
    os.nice(19)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    attack = stubborn_handlers if name == STUBBORN else ATTACKS[name]
    trio.run(run, attack, Place.of(Path(folder), int(port), float(seconds)))


if __name__ == "__main__":
    main(*sys.argv[1:])
