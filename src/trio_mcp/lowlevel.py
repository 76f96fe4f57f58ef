"""The low-level API, for transports, frameworks and extensions that are built on the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._facade import lazy_names

if TYPE_CHECKING:
    from ._util import estimated_tokens as estimated_tokens
    from ._util import failure_of as failure_of
    from ._util import owned_nursery as owned_nursery
    from ._util import succeeds as succeeds
    from .abc import Answerer as Answerer
    from .abc import Transport as Transport
    from .abc import TransportOpener as TransportOpener
    from .client import ClientExtensionPoints as ClientExtensionPoints
    from .client import ResultInProgress as ResultInProgress
    from .client import ServerChanges as ServerChanges
    from .client import ServerTable as ServerTable
    from .client import SupervisedServer as SupervisedServer
    from .client import assign_names as assign_names
    from .client import check_options as check_options
    from .client import load_server_table as load_server_table
    from .client import qualified_name as qualified_name
    from .client import sanitized_name as sanitized_name
    from .peer import BUSY as BUSY
    from .peer import Admission as Admission
    from .peer import CallerDeadlineError as CallerDeadlineError
    from .peer import ClientSession as ClientSession
    from .peer import ConnectionStatistics as ConnectionStatistics
    from .peer import ExchangeContext as ExchangeContext
    from .peer import FairLimiter as FairLimiter
    from .peer import HandlerPool as HandlerPool
    from .peer import HandlerRun as HandlerRun
    from .peer import HandlerSlots as HandlerSlots
    from .peer import IncomingRequest as IncomingRequest
    from .peer import Limits as Limits
    from .peer import Link as Link
    from .peer import OutgoingRequest as OutgoingRequest
    from .peer import Peer as Peer
    from .peer import ServerSession as ServerSession
    from .schema import LISTS_OF_SCHEMAS as LISTS_OF_SCHEMAS
    from .schema import NAMED_SCHEMAS as NAMED_SCHEMAS
    from .schema import SINGLE_SCHEMAS as SINGLE_SCHEMAS
    from .schema import SchemaError as SchemaError
    from .schema import Validator as Validator
    from .schema import compile_schema as compile_schema
    from .server import ActiveServer as ActiveServer
    from .server import Around as Around
    from .server import Forwarder as Forwarder
    from .server import ForwardingResponder as ForwardingResponder
    from .server import ServerExtensionPoints as ServerExtensionPoints
    from .server import ServerStatistics as ServerStatistics
    from .server import ServingPart as ServingPart
    from .server import TasklessRequest as TasklessRequest
    from .server import TasklessResponder as TasklessResponder
    from .server import TaskMode as TaskMode
    from .server import TokenBucket as TokenBucket
    from .server import checked_result as checked_result
    from .server import interim_result as interim_result
    from .server import past_of as past_of
    from .server import progress_of as progress_of
    from .server import run_of as run_of
    from .server import serving_of as serving_of
    from .server import tool_json as tool_json
    from .transports import BegunRequest as BegunRequest
    from .transports import ForwardedApp as ForwardedApp
    from .transports import ForwardedExchange as ForwardedExchange
    from .transports import HttpChannel as HttpChannel
    from .transports import HttpNodes as HttpNodes
    from .transports import LeftSession as LeftSession
    from .transports import ResponseHead as ResponseHead
    from .transports import json_fields as json_fields
    from .transports import stream_link as stream_link
    from .transports import stream_transport as stream_transport
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "_util": ("estimated_tokens", "failure_of", "owned_nursery", "succeeds"),
            "abc": ("Answerer", "Transport", "TransportOpener"),
            "client": (
                "ClientExtensionPoints", "ResultInProgress", "ServerChanges", "ServerTable", "SupervisedServer",
                "assign_names", "check_options", "load_server_table", "qualified_name", "sanitized_name",
            ),
            "peer": (
                "Admission", "BUSY", "CallerDeadlineError", "ClientSession", "ConnectionStatistics", "ExchangeContext",
                "FairLimiter", "HandlerPool", "HandlerRun", "HandlerSlots", "IncomingRequest", "Limits", "Link",
                "OutgoingRequest", "Peer", "ServerSession",
            ),
            "schema": (
                "LISTS_OF_SCHEMAS", "NAMED_SCHEMAS", "SINGLE_SCHEMAS", "SchemaError", "Validator", "compile_schema",
            ),
            "server": (
                "ActiveServer", "Around", "Forwarder", "ForwardingResponder", "ServerExtensionPoints",
                "ServerStatistics", "ServingPart", "TaskMode", "TasklessRequest", "TasklessResponder", "TokenBucket",
                "checked_result", "interim_result", "past_of", "progress_of", "run_of", "serving_of", "tool_json",
            ),
            "transports": (
                "BegunRequest", "ForwardedApp", "ForwardedExchange", "HttpChannel", "HttpNodes", "LeftSession",
                "ResponseHead", "json_fields", "stream_link", "stream_transport",
            ),
        },
    )  # fmt: skip
