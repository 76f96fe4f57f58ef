"""ANSWERING: the registry of tools, resources and prompts, dispatch, and the ways to serve."""

from ._content import Audio as Audio
from ._content import Image as Image
from ._context import Context as Context
from ._serve import serve_stdio as serve_stdio
from ._serve import serve_stream as serve_stream
from ._server import Server as Server
from ._serving import ServerStatistics as ServerStatistics
from ._serving import Serving as Serving
