"""GRAMMAR: what may follow what. Sans-IO JSON-RPC, framing, handshake and envelope; no Trio.

Names only, each imported from its home when it is first used: most of the grammar is about HTTP.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._changes import ACKNOWLEDGED as ACKNOWLEDGED
    from ._changes import LISTEN as LISTEN
    from ._changes import SUBSCRIPTION_ID_KEY as SUBSCRIPTION_ID_KEY
    from ._changes import Change as Change
    from ._changes import ChangeFilter as ChangeFilter
    from ._changes import ListChanged as ListChanged
    from ._changes import ResourceUpdated as ResourceUpdated
    from ._changes import notification_of as notification_of
    from ._changes import read_change as read_change
    from ._changes import subscription_id as subscription_id
    from ._envelope import CAPABILITIES_KEY as CAPABILITIES_KEY
    from ._envelope import CLIENT_INFO_KEY as CLIENT_INFO_KEY
    from ._envelope import LOG_LEVEL_KEY as LOG_LEVEL_KEY
    from ._envelope import LOG_LEVELS as LOG_LEVELS
    from ._envelope import MISSING_CAPABILITY as MISSING_CAPABILITY
    from ._envelope import PROGRESS_TOKEN_KEY as PROGRESS_TOKEN_KEY
    from ._envelope import REVISION_KEY as REVISION_KEY
    from ._envelope import SERVER_INFO_KEY as SERVER_INFO_KEY
    from ._envelope import UNSUPPORTED_REVISION as UNSUPPORTED_REVISION
    from ._envelope import Envelope as Envelope
    from ._envelope import progress_token as progress_token
    from ._envelope import read_envelope as read_envelope
    from ._envelope import stamp as stamp
    from ._envelope import unsupported_revision as unsupported_revision
    from ._exchange import ANSWERING as ANSWERING
    from ._exchange import ASKING as ASKING
    from ._exchange import ExchangeEvent as ExchangeEvent
    from ._exchange import ExchangeState as ExchangeState
    from ._exchange import advance as advance
    from ._framing import LineFramer as LineFramer
    from ._framing import Oversized as Oversized
    from ._handshake import HANDSHAKE as HANDSHAKE
    from ._handshake import HandshakeEvent as HandshakeEvent
    from ._handshake import HandshakeState as HandshakeState
    from ._handshake import check_answer as check_answer
    from ._handshake import choose_answer as choose_answer
    from ._http_fields import METHOD_FIELD as METHOD_FIELD
    from ._http_fields import NAME_FIELD as NAME_FIELD
    from ._http_fields import PARAM_PREFIX as PARAM_PREFIX
    from ._http_fields import VERSION_FIELD as VERSION_FIELD
    from ._http_fields import decode_field as decode_field
    from ._http_fields import encode_field as encode_field
    from ._http_fields import is_plain_field as is_plain_field
    from ._http_fields import request_fields as request_fields
    from ._http_legacy import LAST_EVENT_FIELD as LAST_EVENT_FIELD
    from ._http_legacy import SESSION_FIELD as SESSION_FIELD
    from ._http_legacy import LegacyPost as LegacyPost
    from ._http_legacy import check_session as check_session
    from ._http_legacy import needs_null_id as needs_null_id
    from ._http_media import EVENT_STREAM_TYPE as EVENT_STREAM_TYPE
    from ._http_media import JSON_TYPE as JSON_TYPE
    from ._http_media import accepts as accepts
    from ._http_params import MirroredParam as MirroredParam
    from ._http_params import mirrored_params as mirrored_params
    from ._http_params import param_fault as param_fault
    from ._http_params import param_fields as param_fields
    from ._http_post import Headers as Headers
    from ._http_post import ModernPost as ModernPost
    from ._http_refusal import HEADER_MISMATCH as HEADER_MISMATCH
    from ._http_refusal import Refusal as Refusal
    from ._http_refusal import status_of as status_of
    from ._http_rules import HttpPolicy as HttpPolicy
    from ._http_rules import check_head as check_head
    from ._http_rules import read_post as read_post
    from ._json import JsonObject as JsonObject
    from ._json import JsonText as JsonText
    from ._json import NotJsonError as NotJsonError
    from ._json import Undecodable as Undecodable
    from ._json import copy_json as copy_json
    from ._json import decode as decode
    from ._json import digest as digest
    from ._json import encode as encode
    from ._json import is_array as is_array
    from ._json import is_object as is_object
    from ._json import json_text as json_text
    from ._jsonrpc import INTERNAL_ERROR as INTERNAL_ERROR
    from ._jsonrpc import INVALID_PARAMS as INVALID_PARAMS
    from ._jsonrpc import INVALID_REQUEST as INVALID_REQUEST
    from ._jsonrpc import METHOD_NOT_FOUND as METHOD_NOT_FOUND
    from ._jsonrpc import PARSE_ERROR as PARSE_ERROR
    from ._jsonrpc import BrokenResponse as BrokenResponse
    from ._jsonrpc import ErrorReply as ErrorReply
    from ._jsonrpc import Malformed as Malformed
    from ._jsonrpc import Message as Message
    from ._jsonrpc import Notification as Notification
    from ._jsonrpc import Reply as Reply
    from ._jsonrpc import Request as Request
    from ._jsonrpc import RequestId as RequestId
    from ._jsonrpc import encode_error as encode_error
    from ._jsonrpc import encode_notification as encode_notification
    from ._jsonrpc import encode_request as encode_request
    from ._jsonrpc import encode_result as encode_result
    from ._jsonrpc import is_id as is_id
    from ._jsonrpc import parse_line as parse_line
    from ._jsonrpc import parse_message as parse_message
    from ._ledger import Ledger as Ledger
    from ._revisions import BATCH_REVISION as BATCH_REVISION
    from ._revisions import LEGACY_REVISIONS as LEGACY_REVISIONS
    from ._revisions import MODERN_REVISIONS as MODERN_REVISIONS
    from ._revisions import NULL_ID_REVISIONS as NULL_ID_REVISIONS
    from ._revisions import is_modern as is_modern
    from ._sampling import sampling_content as sampling_content
    from ._sampling import sampling_faults as sampling_faults
    from ._sse import SseDecoder as SseDecoder
    from ._sse import SseEvent as SseEvent
    from ._sse import SseOverflowError as SseOverflowError
    from ._sse import sse_comment as sse_comment
    from ._sse import sse_event as sse_event
    from ._uri_safety import escapes as escapes
    from ._uri_template import UriTemplate as UriTemplate
    from ._uri_template_spelling import is_uri as is_uri

_HOMES = {
    "_changes": (
        "ACKNOWLEDGED", "LISTEN", "SUBSCRIPTION_ID_KEY", "Change", "ChangeFilter", "ListChanged", "ResourceUpdated",
        "notification_of", "read_change", "subscription_id",
    ),
    "_envelope": (
        "CAPABILITIES_KEY", "CLIENT_INFO_KEY", "LOG_LEVEL_KEY", "LOG_LEVELS", "MISSING_CAPABILITY",
        "PROGRESS_TOKEN_KEY", "REVISION_KEY", "SERVER_INFO_KEY", "UNSUPPORTED_REVISION", "Envelope", "progress_token",
        "read_envelope", "stamp", "unsupported_revision",
    ),
    "_exchange": ("ANSWERING", "ASKING", "ExchangeEvent", "ExchangeState", "advance"),
    "_framing": ("LineFramer", "Oversized"),
    "_handshake": ("HANDSHAKE", "HandshakeEvent", "HandshakeState", "check_answer", "choose_answer"),
    "_http_fields": (
        "METHOD_FIELD", "NAME_FIELD", "PARAM_PREFIX", "VERSION_FIELD", "decode_field", "encode_field", "is_plain_field",
        "request_fields",
    ),
    "_http_legacy": ("LAST_EVENT_FIELD", "SESSION_FIELD", "LegacyPost", "check_session", "needs_null_id"),
    "_http_media": ("EVENT_STREAM_TYPE", "JSON_TYPE", "accepts"),
    "_http_params": ("MirroredParam", "mirrored_params", "param_fault", "param_fields"),
    "_http_post": ("Headers", "ModernPost"),
    "_http_refusal": ("HEADER_MISMATCH", "Refusal", "status_of"),
    "_http_rules": ("HttpPolicy", "check_head", "read_post"),
    "_json": (
        "JsonObject", "JsonText", "NotJsonError", "Undecodable", "copy_json", "decode", "digest", "encode", "is_array",
        "is_object", "json_text",
    ),
    "_jsonrpc": (
        "INTERNAL_ERROR", "INVALID_PARAMS", "INVALID_REQUEST", "METHOD_NOT_FOUND", "PARSE_ERROR", "BrokenResponse",
        "ErrorReply", "Malformed", "Message", "Notification", "Reply", "Request", "RequestId", "encode_error",
        "encode_notification", "encode_request", "encode_result", "is_id", "parse_line", "parse_message",
    ),
    "_ledger": ("Ledger",),
    "_revisions": ("BATCH_REVISION", "LEGACY_REVISIONS", "MODERN_REVISIONS", "NULL_ID_REVISIONS", "is_modern"),
    "_sampling": ("sampling_content", "sampling_faults"),
    "_sse": ("SseDecoder", "SseEvent", "SseOverflowError", "sse_comment", "sse_event"),
    "_uri_safety": ("escapes",),
    "_uri_template": ("UriTemplate",),
    "_uri_template_spelling": ("is_uri",),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [*_HOME_OF]  # noqa: PLE0604 # pyright: ignore[reportUnsupportedDunderAll] # derived; a test compares

if not TYPE_CHECKING:  # which would take every name to be here

    def __getattr__(name: str) -> Any:
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f".{_HOME_OF[name]}", __name__), name)
        return value


def __dir__() -> list[str]:
    return [*__all__]
