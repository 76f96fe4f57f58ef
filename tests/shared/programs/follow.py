"""A process that follows a stream: ``follow.py URL STREAM COUNT``; prints ``ready``, and then each entry."""

import sys

import trio

from tests.shared.programs.backends import patient_backend


async def main(url: str, stream: str, count: int) -> None:
    async with patient_backend(url).open() as state, state.follow(stream) as parts:
        print("ready", flush=True)  # noqa: T201 # the test reads it
        async for part in parts:
            for number, entry in enumerate(part.entries, part.first):
                print(number, entry.decode(), part.is_gap, flush=True)  # noqa: T201 # the test reads it
                if number >= count:
                    return


trio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
