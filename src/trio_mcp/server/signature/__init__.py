"""Makes JSON Schemas, and conversions between JSON and Python values, from the signatures of functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._facade import lazy_names

if TYPE_CHECKING:
    from ._inline import SchemaRefs as SchemaRefs
    from ._inline import inlined as inlined
    from ._inspect import Callee as Callee
    from ._inspect import Injected as Injected
    from ._inspect import Resolve as Resolve
    from ._inspect import inspect_callable as inspect_callable
    from ._inspect import may_wait as may_wait
    from ._inspect import mentions as mentions
    from ._signature import ArgumentFaults as ArgumentFaults
    from ._signature import ResultFaults as ResultFaults
    from ._signature import Signature as Signature
    from ._signature import TypeReader as TypeReader
    from ._signature import describe as describe
    from ._signature import describe_type as describe_type
    from ._signature import read_defaults as read_defaults
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "_inline": ("SchemaRefs", "inlined"),
            "_inspect": ("Callee", "Injected", "Resolve", "inspect_callable", "may_wait", "mentions"),
            "_signature": (
                "ArgumentFaults", "ResultFaults", "Signature", "TypeReader", "describe", "describe_type",
                "read_defaults",
            ),
        },
    )  # fmt: skip
