"""Content blocks: their descriptions for the terminal, and files with their bytes."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from trio_mcp import RemoteProtocolError, types
from trio_mcp.cli._errors import UsageError
from trio_mcp.cli._output import Output, Piece, piece_of, save

DATA = base64.b64encode(b"\x00\x01").decode()
BLOB = types.BlobResourceContents(uri="a://b", blob=DATA)


@pytest.mark.parametrize(
    ("block", "piece"),
    [
        (types.TextContent(text="words"), Piece("words")),
        (types.TextResourceContents(uri="a://b", text="words"), Piece("words")),
        (types.ImageContent(data=DATA, mime_type="image/png"), Piece("[image, image/png, 2 bytes]", b"\x00\x01")),
        (types.AudioContent(data=DATA, mime_type="audio/wav"), Piece("[audio, audio/wav, 2 bytes]", b"\x00\x01")),
        (types.ResourceLink(name="n", uri="a://b"), Piece("[resource n: a://b]")),
        (BLOB, Piece("[a://b, type unknown, 2 bytes]", b"\x00\x01")),
        (types.EmbeddedResource(resource=BLOB), Piece("[a://b, type unknown, 2 bytes]", b"\x00\x01")),
    ],
)
def test_each_kind_of_content_is_a_piece(block: types.ContentBlock, piece: Piece) -> None:
    assert piece_of(block) == piece


def test_invalid_base64_is_a_protocol_error_of_the_server() -> None:
    with pytest.raises(RemoteProtocolError, match="is not base64"):
        piece_of(types.ImageContent(data="!", mime_type="image/png"))


def test_several_binary_pieces_are_numbered_files_and_text_is_omitted(tmp_path: Path) -> None:
    pieces = [Piece("words"), Piece("[]", b"one"), Piece("[]", b"two")]

    names = save(pieces, str(tmp_path / "a.bin"), Output())

    assert names == [str(tmp_path / "a.bin"), str(tmp_path / "a-2.bin")]
    assert [Path(name).read_bytes() for name in names] == [b"one", b"two"]


def test_a_file_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot write .*: Is a directory"):
        save([Piece("words")], str(tmp_path), Output())
