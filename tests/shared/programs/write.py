"""A process that counts a value by swaps, and appends what it has counted: ``write.py URL NAME COUNT``.

Prints each number when it is written.
"""

import sys

import trio

from tests.shared.programs.backends import patient_backend


async def main(url: str, name: str, count: int) -> None:
    async with patient_backend(url).open() as state:
        for turn in range(count):
            while not await state.swap("count", old := await state.get("count"), b"%d" % (int(old or b"0") + 1)):
                pass
            entries = [f"{name} {turn} {part}".encode() for part in range(3)]
            print(await state.append("written", entries, at_most=100_000), flush=True)  # noqa: T201 # read by the test


trio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
