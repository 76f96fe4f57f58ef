"""ANSWERING: the registry of tools, resources and prompts, dispatch, and the ways to serve."""

from ._ask import Ask as Ask
from ._asking import AskingMode as AskingMode
from ._cache import CacheHint as CacheHint
from ._content import Audio as Audio
from ._content import Image as Image
from ._context import Context as Context
from ._custom import ExtensionResult as ExtensionResult
from ._form_choices import Choices as Choices
from ._middleware import CallNext as CallNext
from ._middleware import Middleware as Middleware
from ._middleware import Request as Request
from ._questions import Accepted as Accepted
from ._questions import Declined as Declined
from ._questions import Dismissed as Dismissed
from ._questions import Elicit as Elicit
from ._questions import Visit as Visit
from ._questions_to_client import ListRoots as ListRoots
from ._questions_to_client import Sample as Sample
from ._rate_limit import RateLimit as RateLimit
from ._serve import serve_listeners as serve_listeners
from ._serve import serve_stdio as serve_stdio
from ._serve import serve_stream as serve_stream
from ._server import Server as Server
from ._serving import ServerStatistics as ServerStatistics
from ._serving import Serving as Serving
