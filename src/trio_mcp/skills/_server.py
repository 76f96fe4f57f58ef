"""The skills of a server: folders whose files it serves as resources, and the methods that describe them.

Rules of this file:

1. The files of a folder are read when it is added and when it is refreshed, never for a request: what clients read has
   the digests of the entry, whatever happens on the disk meanwhile.
2. A refresh happens as a whole or not at all, and in one step: no request sees a part of it.
3. Every file is a resource. Only the SKILL.md of each skill is in the list of resources; the entry of the skill names
   the others.
4. A caller sees a skill, a file or a directory if it sees the resources in question; see `Server.resource`.

Specification: https://modelcontextprotocol.io/extensions/skills/overview
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote

import trio
from attrs import define, field, frozen

from .. import Access, CacheHint, Context, McpError, Server
from ..types import Resource, unstructure
from ..wire import INVALID_PARAMS, JsonObject, is_modern
from . import types
from ._folder import FolderSkill, SkillFile, read_folder

__all__ = ["ServerSkills"]

SkillVisible: TypeAlias = Callable[[Resource, Access | None], bool]
"""A plain function that decides whether a caller sees a file of a skill; see `Server.resource`."""

_SCHEME = "skill://"
_DIRECTORY_TYPE = "inode/directory"
_DIRECTORY_METHOD = "resources/directory/read"


@define(eq=False)
class _AddedFolder:
    """A folder that was added."""

    folder: Path
    prefix: Sequence[str]
    cache: CacheHint | None
    scopes: Sequence[str]
    visible: SkillVisible | None
    skills: Mapping[str, FolderSkill] = field(factory=dict[str, FolderSkill], init=False)
    """Its skills by URI, as they were read last."""

    def read(self) -> dict[str, FolderSkill]:
        """Read the folder; waits for the disk, and raises as `read_folder` does."""
        return read_folder(self.folder, self.prefix)


@define(eq=False)
class _ServedSkill:
    """A skill that is served."""

    place: int
    """Its place in the list, which it keeps when it changes."""
    entry: types.Skill
    hint: CacheHint


@frozen
class _Change:
    """The contents of some sources before and after a change, by URI."""

    before: Mapping[str, tuple[_AddedFolder, SkillFile]]
    after: Mapping[str, tuple[_AddedFolder, SkillFile]]
    entries: Mapping[str, tuple[_AddedFolder, FolderSkill]]
    """The skills that they hold now."""

    @classmethod
    def of(cls, changes: Sequence[tuple[_AddedFolder, Mapping[str, FolderSkill]]]) -> _Change:
        """Compare the sources with what they hold now; raises ValueError if two of them hold the same file."""
        after: dict[str, tuple[_AddedFolder, SkillFile]] = {}
        for source, skills in changes:
            for uri, file in _files_of(skills):
                if after.setdefault(uri, (source, file))[0] is not source:
                    raise ValueError(f"{source.folder}: another folder has {uri!r} too; add one of them with prefix=")
        return cls(
            {uri: (source, file) for source, _ in changes for uri, file in _files_of(source.skills)},
            after,
            {uri: (source, skill) for source, skills in changes for uri, skill in skills.items()},
        )

    def changed(self) -> list[str]:
        """Return the files that have other contents now, or are gone."""
        now = {uri: file.digest for uri, (_, file) in self.after.items()}
        return [uri for uri, (_, file) in self.before.items() if now.get(uri) != file.digest]

    def moved(self) -> list[str]:
        """Return the files that another source has now, which may have other options."""
        return [uri for uri, (source, _) in self.before.items() if self.after.get(uri, (source,))[0] is not source]


@define(eq=False)
class ServerSkills:
    """The skills of one server, as `Server.skills`. Iterating over it yields their entries (`skills.types.Skill`).

    The extension is declared when the first skills are added. All files are in memory, once, as bytes.

    Specification: https://modelcontextprotocol.io/extensions/skills/overview
    """

    _server: Server = field(repr=False)
    _sources: list[_AddedFolder] = field(factory=list[_AddedFolder], init=False, repr=False)
    _skills: dict[str, _ServedSkill] = field(factory=dict[str, _ServedSkill], init=False)
    """By URI, in the order of the list."""
    _files: dict[str, SkillFile] = field(factory=dict[str, SkillFile], init=False, repr=False)
    """Every file of every skill by URI."""
    _places: int = field(default=0, init=False, repr=False)
    _is_declared: bool = field(default=False, init=False, repr=False)
    _refreshing: trio.Lock = field(factory=trio.Lock, init=False, repr=False)
    _replacing: threading.Lock = field(factory=threading.Lock, init=False, repr=False)
    """Folders may be added in any thread."""

    def __iter__(self) -> Iterator[types.Skill]:
        return iter([served.entry for served in list(self._skills.values())])

    def __len__(self) -> int:
        return len(self._skills)

    def add_directory(
        self,
        path: str | Path,
        *,
        prefix: str = "",
        cache: CacheHint | None = None,
        scopes: Sequence[str] = (),
        visible: SkillVisible | None = None,
    ) -> None:
        """Serve the skill in a folder, or all skills in a folder of skills, at any depth.

        The folder of a skill has a ``SKILL.md``, which begins with YAML frontmatter: at least ``name``, which must be
        the name of the folder, and ``description``. Its URI is ``skill://`` and the names of the folders below *path*:
        ``skill://pdf-processing/SKILL.md``. Everything in the folder belongs to the skill, except for files and folders
        whose names begin with a dot, and ``__pycache__``.

        The files are read now, into memory; `refresh` reads them again. Call it before serving or, if there is much to
        read, in a worker thread of a program that serves already: it waits for the disk.

        Args:
            path: the folder.
            prefix: segments to put before the names of the folders, such as ``"acme/billing"``. It keeps skills of the
                same name apart.
            cache: the cache hint for the entries of these skills and for their files; by default entries are not
                cached, and files as the server says for `resources/read`.
            scopes: the scopes that a caller needs to read the files; as of `Server.resource`. The entries of the skills
                need none.
            visible: decides which callers see the files; as of `Server.resource`. A caller that does not see the
                SKILL.md does not see the skill.

        Raises:
            ValueError: there is no skill, or one is not valid: the message names the file, and the line. Its
                frontmatter may be wrong; it may have a link that leads out of it, more than 512 files, or more than 16
                MiB. Or *prefix* is not a relative path, a URI is registered already, or *scopes* or *cache* are not
                valid.
            TypeError: *visible* is not a plain function, or *cache* is not a `CacheHint`.
            OSError: a file or folder cannot be read.

        Specification: https://modelcontextprotocol.io/extensions/skills/overview
        """
        source = _AddedFolder(Path(path), _segments(prefix), cache, scopes, visible)
        self._replace([(source, source.read())])
        self._sources.append(source)
        self._declare()

    def remove_directory(self, path: str | Path) -> None:
        """Stop serving the skills of a folder; requests in flight continue.

        Args:
            path: as it was given to `add_directory`.

        Raises:
            KeyError: the folder was not added.
        """
        for source in [each for each in self._sources if each.folder == Path(path)]:
            self._sources.remove(source)
            self._replace([(source, {})])
            return
        raise KeyError(f"{path}: this folder was not added")

    async def refresh(self) -> None:
        """Read all folders again, in a worker thread, and serve what they hold now.

        Clients that listen are notified: those that listen to the list of resources of skills that were added, changed
        or removed, and those that listen to a file that it was changed or removed.

        Raises what `add_directory` raises for a folder that is not valid now. Nothing has changed then, and the skills
        are served as before. The same holds if it is cancelled.
        """
        async with self._refreshing:
            sources = [*self._sources]
            read = [await trio.to_thread.run_sync(source.read) for source in sources]
            # A folder may have been removed meanwhile.
            self._replace([each for each in zip(sources, read, strict=True) if each[0] in self._sources])

    def _declare(self) -> None:
        """Declare the extension, unless that was done."""
        if self._is_declared:
            return
        self._is_declared = True
        self._server.method("skills/list")(self._list)
        self._server.method("skills/get")(self._get)
        self._server.method(_DIRECTORY_METHOD)(self._read_directory)
        self._server.declare_extension(types.EXTENSION, {"directoryRead": True})

    # --- Changes ---

    def _replace(self, changes: Sequence[tuple[_AddedFolder, Mapping[str, FolderSkill]]]) -> None:
        """Serve what some sources hold now, in place of what they held; synchronous (rule 2).

        Raises:
            ValueError: a file has the URI of another resource; nothing has changed. Or the options of a source, which
                show when its first file is added, are not valid.
            TypeError: likewise.
        """
        with self._replacing:
            change = _Change.of(changes)
            for uri in change.after:
                if uri not in change.before:
                    self._server.resources.catalog.check_free(uri)
            self._register(change)
            self._keep(change)
            for source, skills in changes:
                source.skills = skills
        for uri in change.changed():
            self._server.resource_updated(uri)

    def _register(self, change: _Change) -> None:
        """Remove the resources that are not what they were, and add those that are new or other than they were."""
        renewed = {uri for uri, (_, skill) in change.entries.items() if uri in change.before and self._is_new(skill)}
        stale = renewed.union(change.changed(), change.moved())
        for uri in stale:
            self._server.resources.remove(uri)
        for uri, (source, file) in change.after.items():
            if uri in stale or uri not in change.before:
                self._add_resource(source, file, change.entries[uri][1] if uri in change.entries else None)

    def _keep(self, change: _Change) -> None:
        for uri in change.before.keys() - change.after.keys():
            del self._files[uri]
            self._skills.pop(uri, None)
        self._files |= {uri: file for uri, (_, file) in change.after.items()}
        for source, skill in change.entries.values():
            self._keep_entry(source, skill)

    def _is_new(self, skill: FolderSkill) -> bool:
        """Return True if the entry of a skill is not the one that is served."""
        served = self._skills.get(skill.uri)
        return served is None or served.entry != skill.entry()

    def _keep_entry(self, source: _AddedFolder, skill: FolderSkill) -> None:
        served = self._skills.get(skill.uri)
        if served is None:
            self._places += 1
        place = self._places if served is None else served.place
        hint = CacheHint() if source.cache is None else source.cache
        self._skills[skill.uri] = _ServedSkill(place, skill.entry(), hint)

    def _add_resource(self, source: _AddedFolder, file: SkillFile, skill: FolderSkill | None) -> None:
        """Register a file as a resource.

        Args:
            skill: the skill, if the file is its SKILL.md.
        """

        async def read() -> str | bytes:
            data = self._files[file.uri].data
            return data.decode() if file.is_text else data

        self._server.resources.add(
            read,
            file.uri,
            name=file.path.name if skill is None else skill.name,
            title=file.path.name if skill is None else None,
            description=None if skill is None else skill.description,
            mime_type=file.mime_type,
            size=len(file.data),
            cache=source.cache,
            scopes=source.scopes,
            visible=source.visible,
            listed=skill is not None,
        )

    # --- Requests ---

    async def _list(self, params: types.ListSkillsRequestParams, ctx: Context) -> JsonObject:
        """Answer `skills/list`."""
        seen = ((each.place, each) for each in list(self._skills.values()) if self._sees(each.entry.uri, ctx))
        page, following = self._server.page("skills/list", seen, params.cursor)
        result: JsonObject = {"skills": [unstructure(each.entry) for each in page]}
        if following is not None:
            result["nextCursor"] = following
        return result | self._hints([each.hint for each in page], ctx)

    async def _get(self, params: types.GetSkillRequestParams, ctx: Context) -> JsonObject:
        """Answer `skills/get`."""
        served = self._skills.get(params.uri)
        if served is None or not self._sees(params.uri, ctx):
            raise McpError(INVALID_PARAMS, f"no skill {params.uri!r:.1000}", {"uri": params.uri})
        return {"skill": unstructure(served.entry)} | self._hints([served.hint], ctx)

    async def _read_directory(self, params: types.ReadResourceDirectoryRequestParams, ctx: Context) -> JsonObject:
        """Answer `resources/directory/read`."""
        children = self._children(params.uri, ctx)
        if not children:
            raise McpError(INVALID_PARAMS, f"no directory {params.uri!r:.1000}", {"uri": params.uri})
        label = f"{_DIRECTORY_METHOD} {params.uri}"
        ordered = enumerate(children[uri] for uri in sorted(children))
        page, following = self._server.page(label, ordered, params.cursor)
        result: JsonObject = {"resources": [unstructure(each, revision=ctx.revision) for each in page]}
        return result if following is None else result | {"nextCursor": following}

    def _children(self, directory: str, ctx: Context) -> dict[str, Resource]:
        """Return what a caller sees directly in a directory, by URI; empty if it sees no such directory."""
        children: dict[str, Resource] = {}
        start = f"{directory}/"
        for uri in list(self._files) if directory.startswith(_SCHEME) else ():
            definition = self._server.resources.definition_of(uri, ctx.access) if uri.startswith(start) else None
            if definition is not None:
                name, slash, _ = uri.removeprefix(start).partition("/")
                child = start + name
                folder = Resource(uri=child, name=unquote(name), mime_type=_DIRECTORY_TYPE)
                children[child] = folder if slash else definition
        return children

    def _sees(self, uri: str, ctx: Context) -> bool:
        return self._server.resources.definition_of(uri, ctx.access) is not None

    def _hints(self, hints: Sequence[CacheHint], ctx: Context) -> JsonObject:
        """Return the cache hint of a result that is made of entries with these hints."""
        if not is_modern(ctx.revision):
            return {}
        ttl = min((hint.ttl for hint in hints), default=0.0)
        is_public = {hint.scope for hint in hints} == {"public"} and not self._server.resources.varies
        return CacheHint(ttl=ttl, scope="public" if is_public else "private").to_wire()


def _files_of(skills: Mapping[str, FolderSkill]) -> Iterator[tuple[str, SkillFile]]:
    """Yield the URI and the file, for each file of the skills; one of a skill inside another is yielded for both."""
    for skill in skills.values():
        yield from skill.files.items()


def _segments(prefix: str) -> Sequence[str]:
    """Return the segments of a prefix; raises ValueError if it is not a relative path."""
    segments = prefix.split("/") if prefix else []
    if not all(segment.isprintable() and segment not in {"", ".", ".."} for segment in segments):
        raise ValueError(f"prefix={prefix!r}: expected segments, such as 'acme/billing'")
    return segments
