"""ENGINE: exchanges, runs, the hall and links made of messages. Trio, but no transport."""

from ._asked import Asked as Asked
from ._asked import Listener as Listener
from ._asked import Update as Update
from ._asked import UpdateBudget as UpdateBudget
from ._context import NO_HEADERS as NO_HEADERS
from ._context import ExchangeContext as ExchangeContext
from ._exchange import Exchange as Exchange
from ._gate import Gate as Gate
from ._hall import Explain as Explain
from ._hall import Hall as Hall
from ._hall import Handler as Handler
from ._hall import OutOfTimeError as OutOfTimeError
from ._hall import Run as Run
from ._limits import Limits as Limits
from ._link import Link as Link
from ._peer import Peer as Peer
from ._session import ClientSession as ClientSession
from ._session import ServerSession as ServerSession
from ._slots import BUSY as BUSY
from ._slots import Slots as Slots
from ._statistics import ConnectionStatistics as ConnectionStatistics
