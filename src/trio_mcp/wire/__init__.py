"""The wire format: JSON-RPC, framing, revisions and envelope, HTTP rules and URI templates, without I/O and Trio.

Contains only names, each imported from its module when it is first used, because most of them are about HTTP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._facade import lazy_names

if TYPE_CHECKING:
    from ._changes import ACKNOWLEDGED as ACKNOWLEDGED
    from ._changes import EVERY_LIST as EVERY_LIST
    from ._changes import LIST_CHANGES as LIST_CHANGES
    from ._changes import LISTEN as LISTEN
    from ._changes import SUBSCRIPTION_ID_KEY as SUBSCRIPTION_ID_KEY
    from ._changes import Change as Change
    from ._changes import ChangeFilter as ChangeFilter
    from ._changes import CustomChange as CustomChange
    from ._changes import ListChanged as ListChanged
    from ._changes import ResourceUpdated as ResourceUpdated
    from ._changes import SpecifiedChange as SpecifiedChange
    from ._changes import is_string_list as is_string_list
    from ._changes import notification_of as notification_of
    from ._changes import read_change as read_change
    from ._changes import subscription_id as subscription_id
    from ._http_headers import METHOD_FIELD as METHOD_FIELD
    from ._http_headers import NAME_FIELD as NAME_FIELD
    from ._http_headers import PARAM_PREFIX as PARAM_PREFIX
    from ._http_headers import PROXY_ADVICE as PROXY_ADVICE
    from ._http_headers import VERSION_FIELD as VERSION_FIELD
    from ._http_headers import MirroredParam as MirroredParam
    from ._http_headers import decode_field as decode_field
    from ._http_headers import encode_field as encode_field
    from ._http_headers import is_plain_field as is_plain_field
    from ._http_headers import mirrored_params as mirrored_params
    from ._http_headers import param_fault as param_fault
    from ._http_headers import param_fields as param_fields
    from ._http_headers import request_fields as request_fields
    from ._http_legacy import LAST_EVENT_FIELD as LAST_EVENT_FIELD
    from ._http_legacy import SESSION_FIELD as SESSION_FIELD
    from ._http_legacy import LegacyPost as LegacyPost
    from ._http_legacy import addressed_stream as addressed_stream
    from ._http_legacy import check_session as check_session
    from ._http_legacy import needs_null_id as needs_null_id
    from ._http_legacy import stream_query as stream_query
    from ._http_messages import EVENT_STREAM_TYPE as EVENT_STREAM_TYPE
    from ._http_messages import HEADER_MISMATCH as HEADER_MISMATCH
    from ._http_messages import JSON_TYPE as JSON_TYPE
    from ._http_messages import Headers as Headers
    from ._http_messages import ModernPost as ModernPost
    from ._http_messages import Refusal as Refusal
    from ._http_messages import accepts as accepts
    from ._http_messages import status_of as status_of
    from ._http_rules import HttpPolicy as HttpPolicy
    from ._http_rules import check_head as check_head
    from ._http_rules import check_place as check_place
    from ._http_rules import read_post as read_post
    from ._jsonrpc import INTERNAL_ERROR as INTERNAL_ERROR
    from ._jsonrpc import INVALID_PARAMS as INVALID_PARAMS
    from ._jsonrpc import INVALID_REQUEST as INVALID_REQUEST
    from ._jsonrpc import METHOD_NOT_FOUND as METHOD_NOT_FOUND
    from ._jsonrpc import PARSE_ERROR as PARSE_ERROR
    from ._jsonrpc import BrokenResponse as BrokenResponse
    from ._jsonrpc import ErrorReply as ErrorReply
    from ._jsonrpc import JsonObject as JsonObject
    from ._jsonrpc import JsonRpcRequest as JsonRpcRequest
    from ._jsonrpc import JsonText as JsonText
    from ._jsonrpc import Line as Line
    from ._jsonrpc import LineFramer as LineFramer
    from ._jsonrpc import Malformed as Malformed
    from ._jsonrpc import Message as Message
    from ._jsonrpc import Notification as Notification
    from ._jsonrpc import NotJsonError as NotJsonError
    from ._jsonrpc import Oversized as Oversized
    from ._jsonrpc import Reply as Reply
    from ._jsonrpc import RequestId as RequestId
    from ._jsonrpc import Undecodable as Undecodable
    from ._jsonrpc import copy_json as copy_json
    from ._jsonrpc import decode as decode
    from ._jsonrpc import decoded as decoded
    from ._jsonrpc import digest as digest
    from ._jsonrpc import encode as encode
    from ._jsonrpc import encode_error as encode_error
    from ._jsonrpc import encode_notification as encode_notification
    from ._jsonrpc import encode_request as encode_request
    from ._jsonrpc import encode_result as encode_result
    from ._jsonrpc import encode_result_in_pieces as encode_result_in_pieces
    from ._jsonrpc import is_array as is_array
    from ._jsonrpc import is_id as is_id
    from ._jsonrpc import is_object as is_object
    from ._jsonrpc import json_text as json_text
    from ._jsonrpc import parse_line as parse_line
    from ._jsonrpc import parse_message as parse_message
    from ._jsonrpc import parse_reply as parse_reply
    from ._jsonrpc import without_preamble as without_preamble
    from ._revisions import BATCH_REVISION as BATCH_REVISION
    from ._revisions import CAPABILITIES_KEY as CAPABILITIES_KEY
    from ._revisions import CLIENT_INFO_KEY as CLIENT_INFO_KEY
    from ._revisions import DEADLINE_KEY as DEADLINE_KEY
    from ._revisions import LEGACY_REVISIONS as LEGACY_REVISIONS
    from ._revisions import LOG_LEVEL_KEY as LOG_LEVEL_KEY
    from ._revisions import LOG_LEVELS as LOG_LEVELS
    from ._revisions import MISSING_CAPABILITY as MISSING_CAPABILITY
    from ._revisions import MODERN_REVISIONS as MODERN_REVISIONS
    from ._revisions import NULL_ID_REVISIONS as NULL_ID_REVISIONS
    from ._revisions import PROGRESS_TOKEN_KEY as PROGRESS_TOKEN_KEY
    from ._revisions import REVISION_KEY as REVISION_KEY
    from ._revisions import SERVER_INFO_KEY as SERVER_INFO_KEY
    from ._revisions import UNSUPPORTED_REVISION as UNSUPPORTED_REVISION
    from ._revisions import Envelope as Envelope
    from ._revisions import check_answer as check_answer
    from ._revisions import choose_answer as choose_answer
    from ._revisions import is_modern as is_modern
    from ._revisions import progress_token as progress_token
    from ._revisions import read_envelope as read_envelope
    from ._revisions import seconds_left as seconds_left
    from ._revisions import stamp as stamp
    from ._revisions import unsupported_revision as unsupported_revision
    from ._revisions import with_deadline as with_deadline
    from ._sampling import sampling_content as sampling_content
    from ._sampling import sampling_faults as sampling_faults
    from ._sse import SseDecoder as SseDecoder
    from ._sse import SseEvent as SseEvent
    from ._sse import SseOverflowError as SseOverflowError
    from ._sse import sse_comment as sse_comment
    from ._sse import sse_event as sse_event
    from ._uri_template import UriTemplate as UriTemplate
    from ._uri_template import escapes as escapes
    from ._uri_template import is_uri as is_uri
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "_changes": (
                "ACKNOWLEDGED", "EVERY_LIST", "LISTEN", "LIST_CHANGES", "SUBSCRIPTION_ID_KEY", "Change", "ChangeFilter",
                "CustomChange", "ListChanged", "ResourceUpdated", "SpecifiedChange", "is_string_list",
                "notification_of", "read_change", "subscription_id",
            ),
            "_http_headers": (
                "METHOD_FIELD", "NAME_FIELD", "PARAM_PREFIX", "PROXY_ADVICE", "VERSION_FIELD", "MirroredParam",
                "decode_field", "encode_field", "is_plain_field", "mirrored_params", "param_fault", "param_fields",
                "request_fields",
            ),
            "_http_legacy": (
                "LAST_EVENT_FIELD", "SESSION_FIELD", "LegacyPost", "addressed_stream", "check_session",
                "needs_null_id", "stream_query",
            ),
            "_http_messages": (
                "EVENT_STREAM_TYPE", "HEADER_MISMATCH", "JSON_TYPE", "Headers", "ModernPost", "Refusal", "accepts",
                "status_of",
            ),
            "_http_rules": ("HttpPolicy", "check_head", "check_place", "read_post"),
            "_jsonrpc": (
                "INTERNAL_ERROR", "INVALID_PARAMS", "INVALID_REQUEST", "METHOD_NOT_FOUND", "PARSE_ERROR",
                "BrokenResponse", "ErrorReply", "JsonObject", "JsonRpcRequest", "JsonText", "Line", "LineFramer",
                "Malformed", "Message", "NotJsonError", "Notification", "Oversized", "Reply", "RequestId",
                "Undecodable", "copy_json", "decode", "decoded", "digest", "encode", "encode_error",
                "encode_notification", "encode_request", "encode_result", "encode_result_in_pieces", "is_array",
                "is_id", "is_object", "json_text", "parse_line", "parse_message", "parse_reply", "without_preamble",
            ),
            "_revisions": (
                "BATCH_REVISION", "CAPABILITIES_KEY", "CLIENT_INFO_KEY", "DEADLINE_KEY", "LEGACY_REVISIONS",
                "LOG_LEVELS", "LOG_LEVEL_KEY", "MISSING_CAPABILITY", "MODERN_REVISIONS", "NULL_ID_REVISIONS",
                "PROGRESS_TOKEN_KEY", "REVISION_KEY", "SERVER_INFO_KEY", "UNSUPPORTED_REVISION", "Envelope",
                "check_answer", "choose_answer", "is_modern", "progress_token", "read_envelope", "seconds_left",
                "stamp", "unsupported_revision", "with_deadline",
            ),
            "_sampling": ("sampling_content", "sampling_faults"),
            "_sse": ("SseDecoder", "SseEvent", "SseOverflowError", "sse_comment", "sse_event"),
            "_uri_template": ("UriTemplate", "escapes", "is_uri"),
        },
    )  # fmt: skip
