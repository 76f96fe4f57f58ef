"""ASKING: the client, its openers, and how it finds out what the other side speaks."""

from ._callbacks import OnElicit as OnElicit
from ._callbacks import OnLog as OnLog
from ._callbacks import OnSample as OnSample
from ._callbacks import Roots as Roots
from ._calls import Call as Call
from ._calls import OnProgress as OnProgress
from ._calls import Updates as Updates
from ._client import Client as Client
from ._client import OpenCall as OpenCall
from ._open import Target as Target
from ._open import open_client as open_client
from ._open import open_memory_client as open_memory_client
from ._open import open_stdio_client as open_stdio_client
from ._open import open_stream_client as open_stream_client
from ._open import start_client as start_client
from ._open import start_memory_client as start_memory_client
from ._open import start_stdio_client as start_stdio_client
from ._open import start_stream_client as start_stream_client
from ._supervisor import ClientOptions as ClientOptions
from ._timing import TimeLimits as TimeLimits
