"""A contract without pytest: run its clauses one after the other, and say which are broken."""

from __future__ import annotations

from ._contract import TransportContract

__all__ = ["broken_clauses", "check_contract"]


async def broken_clauses(contract: TransportContract) -> dict[str, Exception]:
    """Run every clause of *contract*; return what each broken one raised, by the name of its method.

    Needs no pytest. Clauses that a subclass adds are run too: every method whose name begins with ``test_``.
    """
    broken: dict[str, Exception] = {}
    for name in sorted(name for name in dir(contract) if name.startswith("test_")):
        try:
            await getattr(contract, name)()
        except Exception as exc:  # noqa: BLE001 # whatever it is, the clause is broken
            broken[name] = exc
    return broken


async def check_contract(contract: TransportContract) -> None:
    """Run every clause of *contract*, one after the other.

    Raises:
        ExceptionGroup: clauses are broken; each is one exception, with the name of the clause as its note.
    """
    broken = await broken_clauses(contract)
    for name, exc in broken.items():
        exc.add_note(f"clause {name.removeprefix('test_')}")
    if broken:
        raise ExceptionGroup(f"{type(contract).__name__} breaks {len(broken)} clauses", list(broken.values()))
