"""Client and server SDK for the Model Context Protocol, native to Trio.

Each name is imported from its module when it is first used: a client does not load the server, and `trio_mcp.types`
does not load Trio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._facade import lazy_names

if TYPE_CHECKING:
    from . import types as types
    from ._errors import AskExpired as AskExpired
    from ._errors import AuthorizationFailed as AuthorizationFailed
    from ._errors import ConnectionBroken as ConnectionBroken
    from ._errors import ConnectionClosed as ConnectionClosed
    from ._errors import ConnectionLost as ConnectionLost
    from ._errors import ConsentRefused as ConsentRefused
    from ._errors import ErrorResponse as ErrorResponse
    from ._errors import HttpStatusError as HttpStatusError
    from ._errors import LocalProtocolError as LocalProtocolError
    from ._errors import McpError as McpError
    from ._errors import MissingCapability as MissingCapability
    from ._errors import ProtocolError as ProtocolError
    from ._errors import RemoteProtocolError as RemoteProtocolError
    from ._errors import RequestTimedOut as RequestTimedOut
    from ._errors import ResourceNotFound as ResourceNotFound
    from ._errors import ResponseLost as ResponseLost
    from ._errors import ServerExited as ServerExited
    from ._errors import SharedUnavailable as SharedUnavailable
    from ._errors import SkillChanged as SkillChanged
    from ._errors import StructureError as StructureError
    from ._errors import TaskCancelled as TaskCancelled
    from ._errors import ToolError as ToolError
    from ._errors import ToolFailed as ToolFailed
    from ._errors import TooManyParked as TooManyParked
    from ._errors import TooManyTasks as TooManyTasks
    from ._errors import TrioMcpError as TrioMcpError
    from ._errors import UnexpectedResult as UnexpectedResult
    from ._errors import UnsupportedRevision as UnsupportedRevision
    from .apps import AppHost as AppHost
    from .apps import Bridge as Bridge
    from .apps import Csp as Csp
    from .auth import Bearer as Bearer
    from .auth import ClientCredentials as ClientCredentials
    from .auth import EnterpriseManaged as EnterpriseManaged
    from .auth import FileTokenStorage as FileTokenStorage
    from .auth import IntrospectionVerifier as IntrospectionVerifier
    from .auth import JwtVerifier as JwtVerifier
    from .auth import MemoryTokenStorage as MemoryTokenStorage
    from .auth import OAuth as OAuth
    from .auth import PrivateKey as PrivateKey
    from .auth import Registration as Registration
    from .auth import ResourceServer as ResourceServer
    from .auth import WorkloadIdentity as WorkloadIdentity
    from .client import Changes as Changes
    from .client import Client as Client
    from .client import ClientOptions as ClientOptions
    from .client import Clients as Clients
    from .client import Extension as Extension
    from .client import ResponseCache as ResponseCache
    from .client import Restart as Restart
    from .client import ServerStatus as ServerStatus
    from .client import ServerTool as ServerTool
    from .client import TimeLimits as TimeLimits
    from .client import open_client as open_client
    from .client import open_clients as open_clients
    from .client import open_http_client as open_http_client
    from .client import open_memory_client as open_memory_client
    from .client import open_stdio_client as open_stdio_client
    from .client import open_stream_client as open_stream_client
    from .client import start_client as start_client
    from .client import start_clients as start_clients
    from .client import start_http_client as start_http_client
    from .client import start_memory_client as start_memory_client
    from .client import start_stdio_client as start_stdio_client
    from .client import start_stream_client as start_stream_client
    from .peer import Access as Access
    from .peer import Limits as Limits
    from .server import Accepted as Accepted
    from .server import Ask as Ask
    from .server import Assistant as Assistant
    from .server import Audio as Audio
    from .server import BackgroundSnapshot as BackgroundSnapshot
    from .server import CacheHint as CacheHint
    from .server import CallNext as CallNext
    from .server import Choices as Choices
    from .server import ConnectionSnapshot as ConnectionSnapshot
    from .server import Context as Context
    from .server import Declined as Declined
    from .server import Dismissed as Dismissed
    from .server import Elicit as Elicit
    from .server import ExtensionResult as ExtensionResult
    from .server import HttpBound as HttpBound
    from .server import HttpOptions as HttpOptions
    from .server import Image as Image
    from .server import ListRoots as ListRoots
    from .server import Middleware as Middleware
    from .server import RateLimit as RateLimit
    from .server import Request as Request
    from .server import RequestSnapshot as RequestSnapshot
    from .server import Resolve as Resolve
    from .server import Sample as Sample
    from .server import ServeHttpOptions as ServeHttpOptions
    from .server import Server as Server
    from .server import ServerSnapshot as ServerSnapshot
    from .server import StuckTask as StuckTask
    from .server import User as User
    from .server import Visit as Visit
    from .server import http_app as http_app
    from .server import serve_http as serve_http
    from .server import serve_listeners as serve_listeners
    from .server import serve_stdio as serve_stdio
    from .server import serve_stream as serve_stream
    from .shared import MemoryShared as MemoryShared
    from .shared import RedisShared as RedisShared
    from .shared import SqliteShared as SqliteShared
    from .tasks import MemoryTaskStore as MemoryTaskStore
    from .tasks import SharedTaskStore as SharedTaskStore
    from .tasks import SqliteTaskStore as SqliteTaskStore
    from .tasks import TaskHandle as TaskHandle
    from .tasks import TaskSettings as TaskSettings
    from .tasks import TaskState as TaskState
    from .transports import HttpApp as HttpApp
    from .transports import HttpRequest as HttpRequest
    from .transports import HttpRoute as HttpRoute
    from .transports import MemoryEventStore as MemoryEventStore
    from .transports import SessionSettings as SessionSettings
    from .transports import SqliteEventStore as SqliteEventStore
    from .wire import Change as Change
    from .wire import ChangeFilter as ChangeFilter
    from .wire import CustomChange as CustomChange
    from .wire import ListChanged as ListChanged
    from .wire import ResourceUpdated as ResourceUpdated
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "": ("types",),
            "_errors": (
                "AskExpired", "AuthorizationFailed", "ConnectionBroken", "ConnectionClosed", "ConnectionLost",
                "ConsentRefused", "ErrorResponse", "HttpStatusError", "LocalProtocolError", "McpError",
                "MissingCapability", "ProtocolError", "RemoteProtocolError", "RequestTimedOut", "ResourceNotFound",
                "ResponseLost", "ServerExited", "SharedUnavailable", "SkillChanged", "StructureError", "TaskCancelled",
                "TooManyParked", "TooManyTasks", "ToolError", "ToolFailed", "TrioMcpError", "UnexpectedResult",
                "UnsupportedRevision",
            ),
            "apps": ("AppHost", "Bridge", "Csp"),
            "auth": (
                "Bearer", "ClientCredentials", "EnterpriseManaged", "FileTokenStorage", "IntrospectionVerifier",
                "JwtVerifier", "MemoryTokenStorage", "OAuth", "PrivateKey", "Registration", "ResourceServer",
                "WorkloadIdentity",
            ),
            "client": (
                "Changes", "Client", "ClientOptions", "Clients", "Extension", "ResponseCache", "Restart",
                "ServerStatus", "ServerTool", "TimeLimits", "open_client", "open_clients", "open_http_client",
                "open_memory_client", "open_stdio_client", "open_stream_client", "start_client", "start_clients",
                "start_http_client", "start_memory_client", "start_stdio_client", "start_stream_client",
            ),
            "peer": ("Access", "Limits"),
            "server": (
                "Accepted", "Ask", "Assistant", "Audio", "BackgroundSnapshot", "CacheHint", "CallNext", "Choices",
                "ConnectionSnapshot", "Context", "Declined", "Dismissed", "Elicit", "ExtensionResult", "HttpBound",
                "HttpOptions", "Image", "ListRoots", "Middleware", "RateLimit", "Request", "RequestSnapshot",
                "Resolve", "Sample", "ServeHttpOptions", "Server", "ServerSnapshot", "StuckTask", "User", "Visit",
                "http_app", "serve_http", "serve_listeners", "serve_stdio", "serve_stream",
            ),
            "shared": ("MemoryShared", "RedisShared", "SqliteShared"),
            "tasks": (
                "MemoryTaskStore", "SharedTaskStore", "SqliteTaskStore", "TaskHandle", "TaskSettings", "TaskState",
            ),
            "transports": (
                "HttpApp", "HttpRequest", "HttpRoute", "MemoryEventStore", "SessionSettings", "SqliteEventStore",
            ),
            "wire": ("Change", "ChangeFilter", "CustomChange", "ListChanged", "ResourceUpdated"),
        },
    )  # fmt: skip
