"""Tools for tests: ours and the users'."""

from ._cancel import cancel_everywhere as cancel_everywhere
from ._memory import open_memory_client as open_memory_client
