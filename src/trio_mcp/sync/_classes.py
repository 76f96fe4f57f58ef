"""The classes of the objects that clients for programs without async yield, and the types of their options."""

from __future__ import annotations

from .. import client, skills, tasks
from ..client import (
    ClientOptions,
    Consent,
    CustomHandler,
    OnElicit,
    OnElicitComplete,
    OnLog,
    OnProgress,
    OnSample,
    Roots,
)
from ._client import MIRRORS

__all__ = [
    "Call",
    "Changes",
    "Client",
    "ClientOptions",
    "ClientSkill",
    "Clients",
    "Consent",
    "CustomHandler",
    "ManualCall",
    "OnElicit",
    "OnElicitComplete",
    "OnLog",
    "OnProgress",
    "OnSample",
    "Roots",
    "ServerChanges",
    "TaskHandle",
    "TaskStates",
    "Updates",
]

Call = MIRRORS.class_of(client.Call)
Changes = MIRRORS.class_of(client.Changes)
Client = MIRRORS.class_of(client.Client)
Clients = MIRRORS.class_of(client.Clients)
ManualCall = MIRRORS.class_of(client.ManualCall)
ServerChanges = MIRRORS.class_of(client.ServerChanges)
Updates = MIRRORS.class_of(client.Updates)
TaskHandle = MIRRORS.class_of(tasks.TaskHandle)
TaskStates = MIRRORS.class_of(tasks.TaskStates)
ClientSkill = MIRRORS.class_of(skills.ClientSkill)
