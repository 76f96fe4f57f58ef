"""Type aliases of callbacks: programs can use them at run time."""

from __future__ import annotations

from types import NoneType
from typing import Any, get_args, get_overloads, get_type_hints

import pytest

from trio_mcp import Client, Clients, types
from trio_mcp.client import Consent, Consentable, OnElicit, OnElicitComplete, OnLog, OnProgress, OnSample


@pytest.mark.parametrize("alias", [Consent, Consentable, OnElicit, OnElicitComplete, OnLog, OnProgress, OnSample])
def test_an_alias_can_be_part_of_a_union(alias: Any) -> None:
    assert get_args(alias | None)[-1] is NoneType


@pytest.mark.parametrize("client", [Client, Clients])
def test_type_hints_of_methods_can_be_resolved(client: type[Any]) -> None:
    hints, of_type, of_union = map(get_type_hints, get_overloads(client.call_tool))

    assert hints["return"] is types.CallToolResult
    assert get_args(of_type["returns"]) == (of_type["return"],)
    assert of_union["return"] is Any
    callback, _ = get_args(hints["on_progress"])
    assert get_args(callback)[0] == [types.ProgressNotificationParams]
