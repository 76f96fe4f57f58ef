"""The features of a server: tools, resources, prompts, completion and subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._facade import lazy_names

if TYPE_CHECKING:
    from ._catalog import NO_SCOPES as NO_SCOPES
    from ._catalog import NOT_KEPT as NOT_KEPT
    from ._catalog import CacheableMethod as CacheableMethod
    from ._catalog import CacheHint as CacheHint
    from ._catalog import Catalog as Catalog
    from ._catalog import Cursors as Cursors
    from ._catalog import ListResponder as ListResponder
    from ._catalog import NotFound as NotFound
    from ._catalog import Visible as Visible
    from ._catalog import check_hints as check_hints
    from ._catalog import check_keys as check_keys
    from ._catalog import check_scopes as check_scopes
    from ._catalog import check_visible as check_visible
    from ._completion import Completions as Completions
    from ._content import Assistant as Assistant
    from ._content import Audio as Audio
    from ._content import Image as Image
    from ._content import NotReturnable as NotReturnable
    from ._content import User as User
    from ._content import legacy_messages as legacy_messages
    from ._content import legacy_result as legacy_result
    from ._legacy_subscriptions import SessionListeners as SessionListeners
    from ._legacy_subscriptions import SessionSubscription as SessionSubscription
    from ._prompts import Prompts as Prompts
    from ._resources import Resources as Resources
    from ._subscriptions import ChangeHub as ChangeHub
    from ._subscriptions import ChangeSource as ChangeSource
    from ._subscriptions import ListenFilter as ListenFilter
    from ._subscriptions import ListenSubscription as ListenSubscription
    from ._subscriptions import listen as listen
    from ._tools import Around as Around
    from ._tools import RawSchema as RawSchema
    from ._tools import TaskMode as TaskMode
    from ._tools import Tools as Tools
    from ._tools import tool_json as tool_json
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "_catalog": (
                "NOT_KEPT", "NO_SCOPES", "CacheHint", "CacheableMethod", "Catalog", "Cursors", "ListResponder",
                "NotFound", "Visible", "check_hints", "check_keys", "check_scopes", "check_visible",
            ),
            "_completion": ("Completions",),
            "_content": ("Assistant", "Audio", "Image", "NotReturnable", "User", "legacy_messages", "legacy_result"),
            "_legacy_subscriptions": ("SessionListeners", "SessionSubscription"),
            "_prompts": ("Prompts",),
            "_resources": ("Resources",),
            "_subscriptions": ("ChangeHub", "ChangeSource", "ListenFilter", "ListenSubscription", "listen"),
            "_tools": ("Around", "RawSchema", "TaskMode", "Tools", "tool_json"),
        },
    )  # fmt: skip
