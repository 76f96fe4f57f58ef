"""The one JSON codec: exact on the way in, and nothing that JSON cannot say on the way out.

Both directions are msgspec's. Integers keep every digit, `NaN` and invalid UTF-8 are refused on input. On output
msgspec would turn a NaN into null without a word, so `encode` looks for one wherever a null was written, unless it is
plain that there are no floats.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeGuard, cast

import msgspec

__all__ = [
    "JsonObject",
    "JsonText",
    "NotJsonError",
    "Undecodable",
    "copy_json",
    "decode",
    "digest",
    "encode",
    "is_array",
    "is_object",
    "json_text",
]

JsonObject: TypeAlias = dict[str, Any]
JsonText: TypeAlias = msgspec.Raw
"""A JSON value that is encoded already; `encode` puts it where it stands, byte for byte."""

_encode: Callable[[Any], bytes] = msgspec.json.Encoder().encode
_encode_sorted: Callable[[Any], bytes] = msgspec.json.Encoder(order="deterministic").encode
_decode: Callable[[bytes | bytearray | memoryview], Any] = msgspec.json.Decoder().decode


_LARGE = 64 * 1024
"""To search so many bytes takes longer than to look at the few parts that most values of that size have."""
_BYTES_PER_PART = 512
"""Where a value has more parts than one for so many bytes of its JSON, the search is quicker."""
_NO_FLOATS = frozenset({str, int, bool, type(None), JsonText})
"""Classes of values in which no NaN can hide."""


class Undecodable(ValueError):
    """Bytes that are not one JSON value; the text says why and where."""


class NotJsonError(ValueError):
    """A Python value that JSON cannot carry; the text names its place."""


def is_object(value: object) -> TypeGuard[JsonObject]:
    """Tell whether a decoded value is a JSON object."""
    return type(value) is dict


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Tell whether a decoded value is a JSON array."""
    return type(value) is list


def json_text(data: bytes) -> JsonText:
    """Return what is in *data*, which must be one JSON value, as a part of larger values.

    Line breaks between its tokens become spaces, because a message has one line.
    """
    return msgspec.Raw(data.replace(b"\r", b" ").replace(b"\n", b" "))


def decode(data: bytes | bytearray | memoryview) -> Any:
    """Return the JSON value in *data*.

    Raises:
        Undecodable: not JSON, not UTF-8, a number out of range, or nested deeper than the interpreter allows.
    """
    try:
        return _decode(data)
    except UnicodeDecodeError as exc:
        raise Undecodable(f"invalid UTF-8 at byte {exc.start} of a string: {exc.reason}") from None
    except RecursionError:
        raise Undecodable("nested too deep") from None
    except msgspec.MsgspecError as exc:
        raise Undecodable(str(exc)) from None


def encode(value: Any) -> bytes:
    """Return *value* as JSON in UTF-8, on one line.

    Raises:
        NotJsonError: *value* holds something JSON has no word for: NaN, an infinity, a lone surrogate, an object of
            an unknown class, a cycle.
    """
    try:
        data = _encode(value)
        has_null = b"null" in data if len(data) <= _LARGE else _has_null(data, value)
        plain = msgspec.to_builtins(value, str_keys=True, enc_hook=_nothing) if has_null else None
    except RecursionError:
        raise NotJsonError("the value is nested too deep, or contains itself") from None
    except UnicodeEncodeError as exc:
        raise NotJsonError(f"the text {exc.object[:40]!r} holds a lone surrogate") from None
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as exc:
        raise NotJsonError(str(exc)) from None
    path = None if plain is None else _path_of_non_finite(plain)
    if path is not None:
        raise NotJsonError(f"{path}: NaN and infinities are not JSON")
    return data


def _has_null(data: bytes, value: Any) -> bool:
    """Say whether the JSON of *value* has a null that may be a NaN or an infinity there."""
    return not _is_known_to_hold_no_float(value, len(data) // _BYTES_PER_PART) and b"null" in data


def _is_known_to_hold_no_float(value: Any, most_parts: int) -> bool:
    """Say whether *value* has at most so many parts, of the usual classes, and no float is among them."""
    found, waiting = 1, [value]
    while waiting:
        part = waiting.pop()
        if is_object(part) or is_array(part):
            found += len(part)
            if found > most_parts:
                return False
            waiting += part.values() if is_object(part) else part
        elif part.__class__ not in _NO_FLOATS:
            return False
    return True


def _nothing(_: JsonText) -> None:
    """Stand in for a JSON text, which holds no NaN, where a value is searched for one."""


def copy_json(value: Any) -> Any:
    """Return what the other end of a wire would have received for *value*, sharing nothing with it.

    Raises:
        NotJsonError: as `encode` does.
    """
    return _decode(encode(value))


def digest(value: Any) -> str:
    """Return a digest of *value*, the same for the same JSON value whatever the order of its members: 64 characters.

    Raises:
        NotJsonError: as `encode` does.
    """
    encode(value)
    return hashlib.sha256(_encode_sorted(value)).hexdigest()


def _path_of_non_finite(plain: Any) -> str | None:
    """Return where in *plain*, made of builtins, the first number stands that JSON has no word for."""
    waiting: list[tuple[str, Any]] = [("$", plain)]  # a stack, because a call for each level could go too deep
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, float) and not math.isfinite(value):
            return path
        members: list[tuple[str, Any]] = []
        if is_object(value):
            members = [(f"{path}.{key}", member) for key, member in value.items()]
        elif is_array(value) or type(value) is tuple:
            members = [(f"{path}[{index}]", member) for index, member in enumerate(cast("Sequence[Any]", value))]
        waiting += reversed(members)
    return None
