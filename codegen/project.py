"""The files that the generator reads and writes: `schema/`, its pins, and the generated modules."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from attrs import asdict, frozen

from codegen.emit import emit
from codegen.normalise import normalise
from codegen.shapes import RefusedError

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "schema"
PINS = SCHEMA / "pins.toml"
TYPES = ROOT / "src" / "trio_mcp" / "types"

_PINS_HEAD = """\
# Where each schema/<revision>.json came from; written by `python -m codegen --from DIR --commit SHA`.
# commit: of github.com/modelcontextprotocol/modelcontextprotocol;
# upstream: SHA-256 of its schema/<revision>/schema.json; normalised: SHA-256 of the file here.
"""


@frozen(kw_only=True)
class Pin:
    """The origin of one normalised schema."""

    commit: str
    upstream: str
    normalised: str


def read_pins() -> dict[str, Pin]:
    """Return the pins by revision; an empty dict if there is no file yet."""
    if not PINS.exists():
        return {}
    return {revision: Pin(**row) for revision, row in tomllib.loads(PINS.read_text("utf-8")).items()}


def write_pins(pins: dict[str, Pin]) -> None:
    """Write the pins, oldest revision first."""
    tables = [
        "\n".join([f'["{revision}"]', *(f'{key} = "{value}"' for key, value in asdict(pins[revision]).items())])
        for revision in sorted(pins)
    ]
    PINS.write_text("\n".join([_PINS_HEAD, "\n\n".join(tables)]) + "\n", "utf-8")


def read_schemas() -> list[dict[str, Any]]:
    """Return the normalised schemas, oldest first.

    Raises:
        RefusedError: there are no schemas.
    """
    documents = [json.loads(path.read_text("utf-8")) for path in sorted(SCHEMA.glob("*.json"))]
    if not documents:
        raise RefusedError(f"{SCHEMA} holds no schema: run `python -m codegen --from DIR` first")
    return documents


def take_over(folder: Path, commit: str | None) -> list[str]:
    """Normalise the upstream files `folder/<revision>/schema.json` into `schema/`, and pin them.

    Returns:
        The revisions that were found. Others keep their files.

    Raises:
        RefusedError: no file was found, or one cannot be expressed. Then nothing is written.
    """
    found = sorted(folder.glob("*/schema.json"))
    if not found:
        raise RefusedError(f"{folder} holds no <revision>/schema.json")
    pins = read_pins()
    texts: dict[str, str] = {}
    for path in found:
        revision = path.parent.name
        upstream = path.read_bytes()
        texts[revision] = _text(normalise(_parse(upstream, path), revision))
        digest = hashlib.sha256(upstream).hexdigest()
        known = pins.get(revision)
        kept = known.commit if known is not None and known.upstream == digest else "unknown"
        pins[revision] = Pin(commit=commit or kept, upstream=digest, normalised=_digest(texts[revision]))
    # All revisions together must be expressible before a file is replaced.
    others = [document for document in read_schemas_or_none() if document["revision"] not in texts]
    emit(sorted([*others, *map(json.loads, texts.values())], key=lambda document: str(document["revision"])))
    SCHEMA.mkdir(exist_ok=True)
    for revision, text in texts.items():
        (SCHEMA / f"{revision}.json").write_text(text, "utf-8")
    write_pins(pins)
    return sorted(texts)


def read_schemas_or_none() -> list[dict[str, Any]]:
    """Return the normalised schemas, or an empty list if there are none yet."""
    return read_schemas() if any(SCHEMA.glob("*.json")) else []


def regenerate() -> list[str]:
    """Write the generated modules and remove obsolete ones; return the names of the changed files."""
    texts = emit(read_schemas())
    changed = _left_over(texts)
    for name in changed:
        (TYPES / name).unlink()
    for name, text in texts.items():
        path = TYPES / name
        if not path.exists() or path.read_text("utf-8") != text:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
            changed.append(name)
    return changed


def _left_over(texts: Mapping[str, str]) -> list[str]:
    """Return the existing modules of types that are no longer generated."""
    there = [path.relative_to(TYPES).as_posix() for path in sorted(TYPES.glob("_generated/*.py"))]
    return [name for name in there if name not in texts]


def drift() -> list[str]:
    """Return every difference between the files and the output of the generator, as sentences."""
    documents = read_schemas()
    pins = read_pins()
    faults: list[str] = []
    for document in documents:
        revision = document["revision"]
        text = (SCHEMA / f"{revision}.json").read_text("utf-8")
        pin = pins.pop(revision, None)
        if pin is None:
            faults.append(f"schema/{revision}.json has no pin in schema/pins.toml")
        elif _digest(text) != pin.normalised:
            faults.append(f"schema/{revision}.json is not the file that schema/pins.toml names")
        if _text(normalise(document, revision)) != text:
            faults.append(f"schema/{revision}.json is not in normal form")
    faults.extend(
        f"schema/pins.toml names revision {revision}, which schema/ does not hold" for revision in sorted(pins)
    )
    texts = emit(documents)
    for name in (*_left_over(texts), *texts):
        path = TYPES / name
        if not path.exists() or path.read_text("utf-8") != texts.get(name):
            faults.append(f"src/trio_mcp/types/{name} is not what schema/ generates: run `python -m codegen`")
    return faults


def upstream_drift(folder: Path) -> list[str]:
    """Return every difference between `schema/` and the normal form of the upstream files, as sentences."""
    faults: list[str] = []
    for revision, pin in read_pins().items():
        path = folder / revision / "schema.json"
        if not path.exists():
            faults.append(f"{path} is missing")
            continue
        upstream = path.read_bytes()
        if hashlib.sha256(upstream).hexdigest() != pin.upstream:
            faults.append(f"{path} is not the upstream file that schema/pins.toml names")
        if _text(normalise(_parse(upstream, path), revision)) != (SCHEMA / f"{revision}.json").read_text("utf-8"):
            faults.append(f"schema/{revision}.json is not the normal form of {path}")
    return faults


def _parse(data: bytes, path: Path) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except ValueError as error:
        raise RefusedError(f"{path} is not a JSON file: {error}") from error
    if not isinstance(document, dict):
        raise RefusedError(f"{path} is not a JSON Schema: it is not an object")
    return cast("dict[str, Any]", document)


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
