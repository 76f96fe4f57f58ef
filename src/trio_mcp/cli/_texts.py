"""The commands whose answer is text or bytes of the server's: read, prompt, complete."""

from __future__ import annotations

from .. import types
from ._call_arguments import texts_of
from ._content import Piece, piece_of, pieces_of, save
from ._failures import UsageError
from ._job import Job

__all__ = ["complete", "prompt", "read"]


async def read(job: Job) -> None:
    """Read a resource."""
    result = await job.client.read_resource(job.options.uri)
    if job.options.json:
        job.output.document(job.wire(result))
    pieces = pieces_of(result.contents)
    if job.options.output is not None:
        for name in save(pieces, job.options.output, job.output):
            job.notes.say(f"written: {name}")
    elif not job.options.json:
        for piece in pieces:
            _show(job, piece, alone=len(pieces) == 1)


def _show(job: Job, piece: Piece, *, alone: bool) -> None:
    if job.output.is_terminal:
        job.output.text(piece.text)
        if piece.data is not None:
            job.notes.say("-o FILE keeps the bytes")
    elif piece.data is not None:
        job.output.data(piece.data)
    elif alone:
        job.output.data(piece.text.encode("utf-8", "surrogatepass"))  # exactly what it holds, for checksums and diffs
    else:
        job.output.text(piece.text)


async def prompt(job: Job) -> None:
    """Get a prompt, and print its messages."""
    result = await job.client.get_prompt(job.options.name, texts_of(job.options.pairs))
    if job.options.json:
        job.output.document(job.wire(result))
        return
    for message in result.messages:
        job.output.text(f"{message.role}: {piece_of(message.content).text}")


async def complete(job: Job) -> None:
    """Print suggestions for an argument, one on each line."""
    options = job.options
    completion = await job.client.complete(
        _reference(options.reference),
        options.argument,
        options.value,
        context=texts_of(options.context) or None,
    )
    if options.json:
        job.output.document({"completion": job.wire(completion)})
        return
    job.output.table(("suggestion",), [(value,) for value in completion.values])
    if completion.has_more:
        job.notes.say("there are more" if completion.total is None else f"there are {completion.total} in all")


def _reference(text: str) -> types.PromptReference | types.ResourceTemplateReference:
    kind, colon, rest = text.partition(":")
    if not colon or not rest:
        raise UsageError(f"expected prompt:NAME or a URI template, got {text!r}")
    return types.PromptReference(name=rest) if kind == "prompt" else types.ResourceTemplateReference(uri=text)
