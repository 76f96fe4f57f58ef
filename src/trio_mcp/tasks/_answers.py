"""Checks the answers to the questions of a task whose handler is not in memory.

The handler reads the answers when it is replayed, which is too late to refuse them: a key must not be asked again.

Specification: https://modelcontextprotocol.io/extensions/tasks/overview
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import McpError, StructureError, types
from ..wire import INVALID_PARAMS, JsonObject

__all__ = ["check_answers"]

_RESULTS: Mapping[str, type[Any]] = {
    "elicitation/create": types.ElicitResult,
    "roots/list": types.ListRootsResult,
    "sampling/createMessage": types.CreateMessageResult,
}
"""The results of the questions, by method."""


def check_answers(questions: Mapping[str, Any], answers: Mapping[str, Any], revision: str) -> None:
    """Check answers against the questions of the same keys.

    Raises:
        McpError: an answer is not valid; the message names each fault by its path.
    """
    faults = [fault for key, answer in answers.items() for fault in _faults(key, questions[key], answer, revision)]
    if faults:
        raise McpError(INVALID_PARAMS, f"the answer does not fit: {'; '.join(faults)}")


def _faults(key: str, question: JsonObject, answer: Any, revision: str) -> list[str]:
    place = f"$.inputResponses.{key}"
    try:
        read = types.structure(answer, _RESULTS[question["method"]], revision=revision)
    except StructureError as error:
        return [fault.replace("$", place, 1) for fault in error.faults]
    schema = question["params"].get("requestedSchema")
    if schema is None or not isinstance(read, types.ElicitResult) or read.action != "accept":
        return []
    from jsonschema_rs import validator_for  # noqa: PLC0415 # slow to import, and few tasks are replayed

    content: JsonObject = answer.get("content") or {}
    return [
        f"{place}.content{''.join(f'.{each}' for each in error.instance_path)}: {error.message}"
        for error in validator_for(schema).iter_errors(content)  # the schema of a form has no references
    ]
