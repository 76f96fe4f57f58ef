"""The commands `skills` and `skill`: the skills of a server, and the files of one, verified before they are shown."""

from __future__ import annotations

from ._commands import Job
from ._errors import UsageError, nearest
from ._output import first_line

__all__ = ["skill", "skills"]


async def skills(job: Job) -> None:
    """List the skills; no file is read."""
    found = [each async for each in job.client.skills()]
    if job.options.json:
        job.output.document({"skills": job.wire([each.entry for each in found])})
    elif found:
        rows = [(each.uri, each.name, _files(len(each.files), each.is_dynamic), each.description) for each in found]
        columns = ("skill", "name", "files", "what it is for")
        job.output.table(columns, [(*row, first_line(description)) for *row, description in rows])
    else:
        job.notes.say("the server has no skills")


def _files(number: int, is_dynamic: bool) -> str:
    return "dynamic" if is_dynamic else str(number)


async def skill(job: Job) -> None:
    """Print a file of a skill, or save all files.

    Raises:
        UsageError: the skill has no such file, or the folder cannot be written.
        SkillChanged: a file is not what the entry of the skill says.
    """
    options = job.options
    found = await job.client.skill(options.uri)
    if options.json:
        job.output.document({"skill": job.wire(found.entry)})
    if options.save is not None:
        try:
            job.notes.say(f"written: {await found.save(options.save)}")
        except OSError as error:
            raise UsageError(f"cannot write {error.filename or options.save}: {error.strerror}") from None
    elif not options.json:
        if options.file not in found.files and not found.is_dynamic:
            raise UsageError(f"the skill has no file {options.file!r}; {nearest(options.file, found.files)}")
        _show(job, await found.read_bytes(options.file))


def _show(job: Job, data: bytes) -> None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = None
    if not job.output.is_terminal:
        job.output.data(data)  # byte for byte, for checksums and diffs
    elif text is None:
        job.output.line(f"[{len(data)} bytes that are not text]")
        job.notes.say("use --save DIR to save the files")
    else:
        job.output.text(text)
