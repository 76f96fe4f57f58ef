"""The files that the generator reads and writes: `schema/`, its pins, and the generated modules.

Upstream files lie in a folder as `<revision>/schema.json` and `extensions/<name>.json`.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

from attrs import asdict, frozen

from codegen.emit import emit, emit_extension
from codegen.extensions import EXTENSIONS, THIS_PROJECT
from codegen.normalise import normalise, normalise_extension
from codegen.shapes import Definitions, RefusedError

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "schema"
PINS = "pins.toml"
EXTENSION_PINS = "extensions/pins.toml"
PACKAGE = ROOT / "src" / "trio_mcp"

_PINS_HEAD = """\
# Where each schema/<revision>.json came from; written by `python -m codegen --from DIR --commit SHA`.
# commit: of github.com/modelcontextprotocol/modelcontextprotocol;
# upstream: SHA-256 of its schema/<revision>/schema.json; normalised: SHA-256 of the file here.
"""


_EXTENSION_PINS_HEAD = """\
# Where each schema/extensions/<name>.json came from; written by `python -m codegen --from DIR --pin NAME=VERSION`.
# origin: the place of the upstream file; version: the commit, or the version of the package, that it was taken from;
# upstream: its SHA-256; normalised: SHA-256 of the file here. A schema of this project has no version and no upstream.
"""


@frozen(kw_only=True)
class Pin:
    """The origin of one normalised schema."""

    commit: str
    upstream: str
    normalised: str


@frozen(kw_only=True)
class ExtensionPin:
    """The origin of the normalised schema of an extension."""

    origin: str
    version: str | None = None
    upstream: str | None = None
    normalised: str


def read_pins() -> dict[str, Pin]:
    """Return the pins by revision; an empty dict if there is no file yet."""
    return {revision: Pin(**row) for revision, row in _read_toml(PINS).items()}


def read_extension_pins() -> dict[str, ExtensionPin]:
    """Return the pins by extension; an empty dict if there is no file yet."""
    return {name: ExtensionPin(**row) for name, row in _read_toml(EXTENSION_PINS).items()}


def write_pins(pins: Mapping[str, Pin]) -> None:
    """Write the pins, oldest revision first."""
    _write_toml(PINS, _PINS_HEAD, {revision: asdict(pin) for revision, pin in pins.items()})


def write_extension_pins(pins: Mapping[str, ExtensionPin]) -> None:
    """Write the pins of extensions, sorted by name."""
    _write_toml(EXTENSION_PINS, _EXTENSION_PINS_HEAD, {name: asdict(pin) for name, pin in pins.items()})


def _read_toml(name: str) -> dict[str, Any]:
    path = SCHEMA / name
    return tomllib.loads(path.read_text("utf-8")) if path.exists() else {}


def _write_toml(name: str, head: str, rows: Mapping[str, Mapping[str, str | None]]) -> None:
    tables = [
        "\n".join([f'["{row}"]', *(f'{key} = "{value}"' for key, value in rows[row].items() if value is not None)])
        for row in sorted(rows)
    ]
    (SCHEMA / name).parent.mkdir(parents=True, exist_ok=True)
    (SCHEMA / name).write_text("\n".join([head, "\n\n".join(tables)]) + "\n", "utf-8")


def read_schemas() -> list[dict[str, Any]]:
    """Return the normalised schemas, oldest first.

    Raises:
        RefusedError: there are no schemas.
    """
    documents = [json.loads(path.read_text("utf-8")) for path in sorted(SCHEMA.glob("*.json"))]
    if not documents:
        raise RefusedError(f"{SCHEMA} holds no schema: run `python -m codegen --from DIR` first")
    return documents


def read_extensions() -> list[dict[str, Any]]:
    """Return the normalised schemas of extensions, sorted by name."""
    return [json.loads(path.read_text("utf-8")) for path in sorted((SCHEMA / "extensions").glob("*.json"))]


def read_core() -> dict[str, Definitions]:
    """Return the definitions of each revision, to which extensions refer."""
    return {document["revision"]: document["$defs"] for document in read_schemas()}


def take_over(folder: Path, commit: str | None, versions: Mapping[str, str]) -> list[str]:
    """Normalise the upstream files in a folder into `schema/`, and pin them.

    Args:
        folder: the folder.
        commit: the upstream commit of the files of revisions, if it is known.
        versions: the upstream versions of the files of extensions that are known.

    Returns:
        The revisions and extensions that were found. Others keep their files.

    Raises:
        RefusedError: no file was found, or one cannot be expressed. Then nothing is written.
    """
    found = sorted(folder.glob("*/schema.json"))
    found_extensions = sorted((folder / "extensions").glob("*.json"))
    if not found and not found_extensions:
        raise RefusedError(f"{folder} holds no <revision>/schema.json and no extensions/<name>.json")
    pins, texts = read_pins(), dict[str, str]()
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
    documents = sorted([*others, *map(json.loads, texts.values())], key=lambda document: str(document["revision"]))
    if not documents:
        raise RefusedError(f"{folder} holds extensions only, and {SCHEMA} no revision on which they build")
    emit(documents)
    core = {document["revision"]: document["$defs"] for document in documents}
    extension_pins, extension_texts = _normalised_extensions(found_extensions, core, versions)
    write_pins(pins)
    write_extension_pins(extension_pins)
    for revision, text in texts.items():
        (SCHEMA / f"{revision}.json").write_text(text, "utf-8")
    for name, text in extension_texts.items():
        (SCHEMA / "extensions" / f"{name}.json").write_text(text, "utf-8")
    return [*sorted(texts), *sorted(extension_texts)]


def _normalised_extensions(
    found: list[Path], core: Mapping[str, Definitions], versions: Mapping[str, str]
) -> tuple[dict[str, ExtensionPin], dict[str, str]]:
    """Return the pins of all extensions, and the normal forms of those that were found."""
    pins, texts = read_extension_pins(), dict[str, str]()
    for path in found:
        name, upstream = path.stem, path.read_bytes()
        if name not in EXTENSIONS:
            raise RefusedError(f"{path} is the schema of an extension that codegen/extensions.py does not describe")
        if EXTENSIONS[name].origin == THIS_PROJECT:
            raise RefusedError(f"{path} has no place here: schema/extensions/{name}.json is written in this project")
        document = normalise_extension(_parse(upstream, path), name, core)
        emit_extension(document)
        texts[name] = _text(document)
        known, digest = pins.get(name), hashlib.sha256(upstream).hexdigest()
        kept = known.version if known is not None and known.upstream == digest else "unknown"
        pins[name] = ExtensionPin(
            origin=EXTENSIONS[name].origin,
            version=versions.get(name, kept),
            upstream=digest,
            normalised=_digest(texts[name]),
        )
    return pins, texts


def _pin_own_extensions() -> None:
    """Bring the schemas of extensions that are written in this project into normal form, and pin them."""
    pins, core = read_extension_pins(), read_core()
    for name, facts in EXTENSIONS.items():
        path = SCHEMA / "extensions" / f"{name}.json"
        if facts.origin == THIS_PROJECT and path.exists():
            text = _text(normalise_extension(_parse(path.read_bytes(), path), name, core))
            path.write_text(text, "utf-8")
            pins[name] = ExtensionPin(origin=THIS_PROJECT, normalised=_digest(text))
    write_extension_pins(pins)


def read_schemas_or_none() -> list[dict[str, Any]]:
    """Return the normalised schemas, or an empty list if there are none yet."""
    return read_schemas() if any(SCHEMA.glob("*.json")) else []


def regenerate() -> list[str]:
    """Write the generated modules and remove obsolete ones; return the names of the changed files.

    The schemas of extensions that have no upstream are pinned as they are found.
    """
    _pin_own_extensions()
    texts = _generated()
    changed = _left_over(texts)
    for name in changed:
        (PACKAGE / name).unlink()
    for name, text in texts.items():
        path = PACKAGE / name
        if not path.exists() or path.read_text("utf-8") != text:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
            changed.append(name)
    return changed


def _generated() -> dict[str, str]:
    """Return the sources of all generated modules, by their path in the package."""
    core = {f"types/{name}": text for name, text in emit(read_schemas()).items()}
    extensions = {f"{document['extension']}/types.py": emit_extension(document) for document in read_extensions()}
    return {**core, **extensions}


def _left_over(texts: Mapping[str, str]) -> list[str]:
    """Return the existing modules of types that are no longer generated."""
    there = [*PACKAGE.glob("types/_generated/*.py"), *(PACKAGE / name / "types.py" for name in EXTENSIONS)]
    names = [path.relative_to(PACKAGE).as_posix() for path in sorted(there) if path.exists()]
    return [name for name in names if name not in texts]


def drift() -> list[str]:
    """Return every difference between the files and the output of the generator, as sentences."""
    faults: list[str] = []
    pins = read_pins()
    for document in read_schemas():
        revision = document["revision"]
        normal = _text(normalise(document, revision))
        faults.extend(_drift_of(f"{revision}.json", normal, pins.pop(revision, None), PINS))
    faults.extend(f"schema/{PINS} names revision {revision}, which schema/ does not hold" for revision in sorted(pins))
    core = read_core()
    extension_pins = read_extension_pins()
    for document in read_extensions():
        name = document["extension"]
        normal = _text(normalise_extension(document, name, core))
        pin = extension_pins.pop(name, None)
        faults.extend(_drift_of(f"extensions/{name}.json", normal, pin, EXTENSION_PINS))
    faults.extend(
        f"schema/{EXTENSION_PINS} names {name}, which schema/extensions/ does not hold"
        for name in sorted(extension_pins)
    )
    texts = _generated()
    for name in (*_left_over(texts), *texts):
        path = PACKAGE / name
        if not path.exists() or path.read_text("utf-8") != texts.get(name):
            faults.append(f"src/trio_mcp/{name} is not what schema/ generates: run `python -m codegen`")
    return faults


def _drift_of(name: str, normal: str, pin: Pin | ExtensionPin | None, pins: str) -> list[str]:
    """Return the differences of a schema from its pin and from its normal form, as sentences."""
    faults: list[str] = []
    text = (SCHEMA / name).read_text("utf-8")
    if pin is None:
        faults.append(f"schema/{name} has no pin in schema/{pins}")
    elif _digest(text) != pin.normalised:
        faults.append(f"schema/{name} is not the file that schema/{pins} names")
    if normal != text:
        faults.append(f"schema/{name} is not in normal form")
    return faults


def upstream_drift(folder: Path) -> list[str]:
    """Return every difference between `schema/` and the normal form of the upstream files, as sentences."""
    faults: list[str] = []
    for revision, pin in read_pins().items():
        path = folder / revision / "schema.json"
        faults.extend(_drift_from(path, pin, f"{revision}.json", PINS, partial(normalise, revision=revision)))
    core = read_core()
    for name, extension_pin in read_extension_pins().items():
        if extension_pin.upstream is not None:
            path = folder / "extensions" / f"{name}.json"
            normal = partial(normalise_extension, name=name, core=core)
            faults.extend(_drift_from(path, extension_pin, f"extensions/{name}.json", EXTENSION_PINS, normal))
    return faults


def _drift_from(
    path: Path, pin: Pin | ExtensionPin, name: str, pins: str, normal: Callable[[dict[str, Any]], dict[str, Any]]
) -> list[str]:
    """Return the differences of an upstream file from its pin, and of a schema from its normal form, as sentences."""
    if not path.exists():
        return [f"{path} is missing"]
    faults: list[str] = []
    upstream = path.read_bytes()
    if hashlib.sha256(upstream).hexdigest() != pin.upstream:
        faults.append(f"{path} is not the upstream file that schema/{pins} names")
    if _text(normal(_parse(upstream, path))) != (SCHEMA / name).read_text("utf-8"):
        faults.append(f"schema/{name} is not the normal form of {path}")
    return faults


def read_upstream(folder: Path, document: dict[str, Any]) -> dict[str, Any]:
    """Return the upstream file of an extension; its normal form if that is written in this project.

    Args:
        folder: the folder with the upstream files.
        document: the normal form.
    """
    name = document["extension"]
    if EXTENSIONS[name].origin == THIS_PROJECT:
        return document
    path = folder / "extensions" / f"{name}.json"
    return _parse(path.read_bytes(), path)


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
