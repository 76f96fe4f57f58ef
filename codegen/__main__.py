"""The command line: `python -m codegen`, with `--check`, `--from DIR`, or `spec --from DIR`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from codegen.extensions import EXTENSIONS
from codegen.project import drift, regenerate, take_over
from codegen.shapes import RefusedError


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit status: 0, or 1 if an input is refused or a file differs."""
    options = _parser().parse_args(arguments)
    try:
        if options.command == "spec":
            return _spec(options.folder)
        if options.check:
            return _check()
        return _generate(options.folder, options.commit, dict(options.versions))
    except RefusedError as refusal:
        print(f"codegen: {refusal}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m codegen", description="Generate the types of messages from schema/. Needs no network."
    )
    parser.set_defaults(command=None, folder=None)
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--check", action="store_true", help="change nothing; fail if anything generated or pinned differs"
    )
    what.add_argument(
        "--from",
        dest="folder",
        type=Path,
        metavar="DIR",
        help="first import the upstream files DIR/<revision>/schema.json and DIR/extensions/<name>.json",
    )
    parser.add_argument("--commit", metavar="SHA", help="the upstream commit of the files of revisions")
    parser.add_argument(
        "--pin",
        dest="versions",
        type=_version,
        action="append",
        default=[],
        metavar="NAME=VERSION",
        help="the upstream version of the file of an extension: a commit, or the version of a package",
    )
    commands = parser.add_subparsers(metavar="spec")
    spec = commands.add_parser("spec", help="compare the types with upstream schemas and their example messages")
    spec.set_defaults(command="spec")
    spec.add_argument("--from", dest="folder", type=Path, metavar="DIR", required=True)
    return parser


def _version(argument: str) -> tuple[str, str]:
    name, _, version = argument.partition("=")
    if name not in EXTENSIONS or not version:
        raise argparse.ArgumentTypeError(f"{argument!r} is not NAME=VERSION; the names are {', '.join(EXTENSIONS)}")
    return name, version


def _generate(folder: Path | None, commit: str | None, versions: Mapping[str, str]) -> int:
    if folder is not None:
        print(f"took over {', '.join(take_over(folder, commit, versions))}")
    changed = regenerate()
    print(f"wrote {', '.join(changed)}" if changed else "nothing changed")
    return 0


def _check() -> int:
    faults = drift()
    for fault in faults:
        print(f"codegen: {fault}", file=sys.stderr)
    if not faults:
        print("schema/ matches its pins, and generates the modules of types as they are")
    return 1 if faults else 0


def _spec(folder: Path) -> int:
    # Imported late, because it imports the generated package, which the generator must be able to repair.
    from codegen.spec.run import verify  # noqa: PLC0415

    return verify(folder)


if __name__ == "__main__":
    sys.exit(main())
