"""Content of tools, resources and prompts: as text to show, and as bytes to keep."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

from attrs import frozen

from .. import types
from .._errors import RemoteProtocolError
from ._failures import UsageError
from ._output import Output

__all__ = ["Piece", "piece_of", "pieces_of", "save"]

Contents: TypeAlias = types.TextResourceContents | types.BlobResourceContents


@frozen
class Piece:
    """One piece of content."""

    text: str
    """What it says; of bytes, what they are."""
    data: bytes | None = None


def pieces_of(blocks: Iterable[types.ContentBlock | Contents]) -> list[Piece]:
    """Return the pieces of some content.

    Raises:
        RemoteProtocolError: what should be base64 is not.
    """
    return [piece_of(block) for block in blocks]


def piece_of(block: types.ContentBlock | Contents) -> Piece:
    """Return one block of content as a piece; raises as `pieces_of` does."""
    match block:
        case types.TextContent() | types.TextResourceContents():
            return Piece(block.text)
        case types.ImageContent():
            return _binary("image", block.mime_type, block.data)
        case types.AudioContent():
            return _binary("audio", block.mime_type, block.data)
        case types.ResourceLink():
            return Piece(f"[resource {block.title or block.name}: {block.uri}]")
        case types.BlobResourceContents():
            return _binary(block.uri, block.mime_type or "type unknown", block.blob)
        case _:
            return piece_of(block.resource)


def _binary(what: str, mime_type: str, encoded: str) -> Piece:
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RemoteProtocolError(f"the server's content ({what}, {mime_type}) is not base64: {error}") from None
    return Piece(f"[{what}, {mime_type}, {len(data)} bytes]", data)


def save(pieces: Sequence[Piece], path: str, output: Output) -> list[str]:
    """Write the binary pieces to files, or else the text to one; ``-`` is standard output.

    Returns:
        The names of the files: *path*, then, where there are several pieces, `path-2` and so on before the suffix.

    Raises:
        UsageError: a file cannot be written.
    """
    datas = [piece.data for piece in pieces if piece.data is not None]
    datas = datas or ["\n".join(piece.text for piece in pieces).encode("utf-8", "surrogatepass")]
    if path == "-":
        for data in datas:
            output.data(data)
        return []
    names = [path, *(_numbered(path, number) for number in range(2, len(datas) + 1))]
    for name, data in zip(names, datas, strict=True):
        try:
            Path(name).write_bytes(data)
        except OSError as error:
            raise UsageError(f"cannot write {name}: {error.strerror}") from None
    return names


def _numbered(path: str, number: int) -> str:
    plain = Path(path)
    return str(plain.with_name(f"{plain.stem}-{number}{plain.suffix}"))
