"""Makes package facades lazy: each name is imported from its module when it is first used.

A facade lists its names twice: as imports under ``if TYPE_CHECKING:``, for type checkers, and as the table that this
helper takes. `tests/architecture` compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(
    package: str, homes: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the `__getattr__`, `__dir__` and `__all__` of a package whose names are imported on first use.

    Args:
        package: the dotted name of the package, or of a module.
        homes: the names of the package, by the module or sub-package that defines them; for a module, those beside it.
            Names under ``""`` are sub-packages themselves.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def import_name(name: str) -> Any:
        if name not in home_of:
            from ._other_sdks import foreign_name  # noqa: PLC0415 # few programs need it

            raise foreign_name(package, name, home_of)
        home, facade = home_of[name], import_module(package)
        if not home:
            return import_module(f".{name}", package)
        value = getattr(import_module(f".{home}", facade.__package__), name)
        setattr(facade, name, value)  # the next access finds the attribute
        return value

    return import_name, lambda: [*home_of], [*home_of]
