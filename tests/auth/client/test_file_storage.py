"""The token storage in a file: permissions, atomic writes, and locks between processes."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest
import trio
import trio.testing

from trio_mcp import AuthorizationFailed
from trio_mcp.auth import FileTokenStorage
from trio_mcp.auth.client import _token_storage as module

if sys.platform == "win32":
    pytest.skip("the file's permissions and locks is about POSIX", allow_module_level=True)

import fcntl

FULL_DISK = Path(__file__).parent / "programs" / "full_disk.py"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "tokens.json"


@pytest.fixture
def storage(path: Path) -> FileTokenStorage:
    return FileTokenStorage(path)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def modes_in(folder: Path) -> dict[str, int]:
    return {path.name: mode_of(path) for path in folder.iterdir()}


def put(path: Path, content: bytes = b"{}") -> None:
    """Write a file in the format of the storage, with the given mode."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o600)


def link(path: Path, target: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(target)


def content_of(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


async def test_reading_creates_no_file(storage: FileTokenStorage, path: Path) -> None:
    assert await storage.load("key") is None

    assert not path.parent.exists()


async def test_a_value_is_visible_to_other_storage_objects_at_the_same_path(
    storage: FileTokenStorage, path: Path
) -> None:
    assert await storage.swap("key", None, "väl\nue")
    assert await storage.swap("other", None, "2")

    assert await FileTokenStorage(str(path)).load("key") == "väl\nue"
    assert await FileTokenStorage(path).load("other") == "2"


async def test_a_value_is_changed_only_if_it_has_the_expected_old_value(storage: FileTokenStorage) -> None:
    assert await storage.swap("key", None, "1")

    assert not await storage.swap("key", None, "2")
    assert not await storage.swap("key", "0", "2")
    assert await storage.load("key") == "1"
    assert await storage.swap("key", "1", "2")
    assert await storage.load("key") == "2"


async def test_a_value_is_deleted(storage: FileTokenStorage) -> None:
    await storage.swap("key", None, "1")

    assert await storage.swap("key", "1", None)
    assert await storage.load("key") is None
    assert await storage.swap("key", None, None)


@pytest.mark.requirement("C.2-18")
async def test_only_the_owner_can_access_the_file_regardless_of_the_umask(
    storage: FileTokenStorage, path: Path
) -> None:
    before = os.umask(0)
    try:
        await storage.swap("key", None, "1")
    finally:
        os.umask(before)

    assert mode_of(path.parent) == 0o700
    assert modes_in(path.parent) == {"tokens.json": 0o600, "tokens.json.lock": 0o600}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601])
@pytest.mark.requirement("C.2-18")
async def test_a_file_that_other_users_can_access_is_refused(storage: FileTokenStorage, path: Path, mode: int) -> None:
    await storage.swap("key", None, "1")
    os.chmod(path, mode)  # noqa: PTH101 # takes no time

    with pytest.raises(AuthorizationFailed, match=r"is accessible for other users; chmod 600"):
        await storage.load("key")
    with pytest.raises(AuthorizationFailed, match="accessible for other users"):
        await storage.swap("key", "1", "2")


async def test_a_file_of_another_user_is_refused(
    storage: FileTokenStorage, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await storage.swap("key", None, "1")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)  # the test has only one user

    with pytest.raises(AuthorizationFailed, match="belongs to another user"):
        await storage.load("key")


async def test_a_symbolic_link_at_the_path_is_not_followed(
    storage: FileTokenStorage, path: Path, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    put(target)
    link(path, target)

    with pytest.raises(AuthorizationFailed, match="it is a link"):
        await storage.load("key")
    with pytest.raises(AuthorizationFailed, match="it is a link"):
        await storage.swap("key", None, "1")

    assert content_of(target) == b"{}"


async def test_a_symbolic_link_at_the_path_of_the_lock_or_the_new_file_is_not_followed(
    storage: FileTokenStorage, path: Path, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    lock, new = path.with_name("tokens.json.lock"), path.with_name("tokens.json.new")
    link(lock, target)
    with pytest.raises(AuthorizationFailed, match="it is a link"):
        await storage.swap("key", None, "1")
    os.unlink(lock)  # noqa: PTH108 # takes no time
    link(new, target)

    assert await storage.swap("key", None, "1")

    assert content_of(target) is None
    assert content_of(new) is None


async def test_a_path_that_is_not_a_regular_file_is_refused(storage: FileTokenStorage, path: Path) -> None:
    path.parent.mkdir()
    os.mkfifo(path, 0o600)

    with pytest.raises(AuthorizationFailed, match="not a regular file"):
        await storage.load("key")


@pytest.mark.parametrize("content", [b"", b"[]", b'{"key": 1}', b'{"s3cret"', b'{"key": "\xff"}', b"\xff"])
async def test_a_file_with_foreign_content_is_refused_and_left_unchanged(
    storage: FileTokenStorage, path: Path, content: bytes
) -> None:
    put(path, content)

    with pytest.raises(AuthorizationFailed, match=r"tokens\.json is not a token storage") as caught:
        await storage.swap("key", None, "1")

    assert content_of(path) == content
    assert "s3cret" not in str(caught.value)


async def test_an_operating_system_error_is_reported_with_the_path_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    storage = FileTokenStorage(tmp_path / "file" / "tokens.json")

    with pytest.raises(AuthorizationFailed, match=r"file/tokens\.json cannot be used: ") as caught:
        await storage.swap("key", None, "1")

    assert isinstance(caught.value.__cause__, OSError)


async def test_if_a_new_file_cannot_be_completed_the_old_file_remains(
    storage: FileTokenStorage, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await storage.swap("key", None, "1")

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)  # simulates a full disk
        with pytest.raises(AuthorizationFailed, match="No space left"):
            await storage.swap("key", "1", "2")

    assert modes_in(path.parent).keys() == {"tokens.json", "tokens.json.lock"}
    assert await storage.load("key") == "1"
    assert await storage.swap("key", "1", "3")


async def test_a_full_disk_leaves_the_old_file_and_no_other(path: Path) -> None:
    with trio.fail_after(60):
        ended = await trio.run_process([sys.executable, "-W", "error", str(FULL_DISK), str(path)], capture_stdout=True)

    said = json.loads(ended.stdout)
    assert "tokens.json cannot be used: File too large" in said["error"]
    assert said["value"] == "1"
    assert said["names"] == ["tokens.json", "tokens.json.lock"]


async def test_a_change_waits_for_the_lock_and_reading_does_not(storage: FileTokenStorage, path: Path) -> None:
    await storage.swap("key", None, "1")
    with path.with_name("tokens.json.lock").open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(storage.swap, "key", "1", "2")
            assert await storage.load("key") == "1"
            fcntl.flock(other, fcntl.LOCK_UN)

    assert await storage.load("key") == "2"


async def test_waiting_for_the_lock_can_be_cancelled_and_nothing_is_changed(
    storage: FileTokenStorage, path: Path
) -> None:
    await storage.swap("key", None, "1")
    with path.with_name("tokens.json.lock").open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with trio.move_on_after(0.05) as scope:
            await storage.swap("key", "1", "2")
        assert scope.cancelled_caught

    assert await storage.load("key") == "1"
    assert await storage.swap("key", "1", "3")


async def test_changes_that_wait_for_the_lock_keep_neither_threads_nor_other_storages_from_working(
    storage: FileTokenStorage, path: Path, nursery: trio.Nursery
) -> None:
    await storage.swap("key", None, "1")
    with path.with_name("tokens.json.lock").open() as other, trio.fail_after(60):
        fcntl.flock(other, fcntl.LOCK_EX)
        for _ in range(50):
            nursery.start_soon(storage.swap, "key", "1", "2")
        await trio.testing.wait_all_tasks_blocked()

        assert await trio.to_thread.run_sync(os.getpid) == os.getpid()
        assert await FileTokenStorage(path.with_name("other.json")).swap("key", None, "1")
        nursery.cancel_scope.cancel()


async def test_a_storage_does_not_wait_for_the_threads_of_the_application(storage: FileTokenStorage) -> None:
    threads = trio.to_thread.current_default_thread_limiter()
    borrowers = [object() for _ in range(int(threads.total_tokens))]
    for each in borrowers:
        threads.acquire_on_behalf_of_nowait(each)

    with trio.fail_after(60):
        assert await storage.swap("key", None, "1")
        assert await storage.load("key") == "1"

    for each in borrowers:
        threads.release_on_behalf_of(each)


async def test_waiting_for_the_lock_has_a_timeout(
    storage: FileTokenStorage, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOCK_SECONDS", 0.02)
    await storage.swap("key", None, "1")
    with path.with_name("tokens.json.lock").open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)

        with pytest.raises(AuthorizationFailed, match=r"locked by another process \(.*tokens\.json\.lock\)"):
            await storage.swap("key", "1", "2")


async def test_concurrent_changes_are_all_kept(path: Path) -> None:
    async def add(number: int) -> None:
        storage = FileTokenStorage(path)
        while True:
            old = await storage.load("key")
            if await storage.swap("key", old, f"{old or ''}{number},"):
                return

    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(add, number)

    value = await FileTokenStorage(path).load("key")
    assert value is not None
    assert sorted(value.split(",")[:-1]) == [str(number) for number in range(8)]


@pytest.mark.parametrize(
    ("data_home", "expected"),
    [(None, "home/.local/share/trio-mcp"), ("relative", "home/.local/share/trio-mcp"), ("data", "data/trio-mcp")],
)
def test_by_default_the_file_is_in_the_data_folder_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data_home: str | None, expected: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    if data_home is not None:
        monkeypatch.setenv("XDG_DATA_HOME", data_home if data_home == "relative" else str(tmp_path / data_home))

    assert FileTokenStorage().path == tmp_path / expected / "tokens.json"
