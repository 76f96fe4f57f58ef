"""The docstrings of the generated types of extensions, in the form of `prose`.

Data only, by extension. A class that is missing here gets a docstring from its name (see `docs`).
"""

from __future__ import annotations

EXTENSION_CLASSES: dict[str, dict[str, str]] = {
    "skills": {
        "GetSkillRequest": "The request of a client for the entry of one skill.",
        "GetSkillRequestParams": "The skill to describe, by the URI of its SKILL.md.",
        "GetSkillResult": "The entry of one skill.",
        "ListSkillsRequest": "The request of a client for a page of a server's skills.",
        "ListSkillsRequestParams": "The page to list; the first page without a cursor.",
        "ListSkillsResult": "One page of a server's skills. It may be empty or incomplete even if there are skills.",
        "ReadResourceDirectoryRequest": "The request of a client for the children of a directory resource.",
        "ReadResourceDirectoryRequestParams": "The directory to read, by its URI without a trailing slash.",
        "ReadResourceDirectoryResult": "One page of the direct children of a directory resource.",
        "Skill": "The entry of a skill: all that a host needs to show it, to bind an approval to it and to verify it.",
        "SkillResource": "One file of a skill, with the digest and the size that its contents must have.",
        "SkillsExtensionCapability": "The settings with which a server declares that it serves skills.",
    },
    "tasks": {
        "CancelTaskRequest": "The request of a client to cancel a task.",
        "CancelTaskRequestParams": "The task to cancel.",
        "CancelTaskResult": "The acknowledgement of a cancellation. The task may still end in another way.",
        "CancelledTask": "A task that was cancelled.",
        "CompletedTask": "A task that has its result.",
        "CreateTaskResult": "The first result of a request that goes on as a task: the task, not yet its outcome.",
        "FailedTask": "A task that ended with an error of JSON-RPC.",
        "GetTaskRequest": "The request of a client for the state of a task.",
        "GetTaskRequestParams": "The task to look up.",
        "GetTaskResultCancelled": "The state of a task that was cancelled.",
        "GetTaskResultCompleted": "The state of a task that has its result.",
        "GetTaskResultFailed": "The state of a task that ended with an error of JSON-RPC.",
        "GetTaskResultInputRequired": "The state of a task that waits for answers of the client.",
        "GetTaskResultWorking": "The state of a task that is still worked on.",
        "InputRequiredTask": "A task that waits for answers of the client.",
        "Task": "The state of a task in any status, without what the status adds.",
        "TaskStatusNotification": "The notice of a server of the new state of a task.",
        "TaskStatusNotificationParamsCancelled": "The new state of a task that was cancelled.",
        "TaskStatusNotificationParamsCompleted": "The new state of a task that has its result.",
        "TaskStatusNotificationParamsFailed": "The new state of a task that ended with an error of JSON-RPC.",
        "TaskStatusNotificationParamsInputRequired": "The new state of a task that waits for answers of the client.",
        "TaskStatusNotificationParamsWorking": "The new state of a task that is still worked on.",
        "TaskSubscriptionAcknowledgedNotifications": "The tasks whose changes the server has agreed to send.",
        "TaskSubscriptionNotifications": "The tasks whose changes a client wants to be notified of.",
        "UpdateTaskRequest": "The answers of a client to the questions of a task.",
        "UpdateTaskRequestParams": "The task, and the answers to some or all of its questions.",
        "UpdateTaskResult": "The acknowledgement of answers. The task may show their effect later.",
        "WorkingTask": "A task that is still worked on.",
    },
}

EXTENSION_MEMBERS: dict[str, dict[str, str]] = {
    "skills": {
        "Skill.frontmatter": "The YAML frontmatter of SKILL.md as JSON, verbatim; at least `name` and `description`.",
        "Skill.resources": 'Every file of the skill once, SKILL.md too; `"dynamic"` if they have no stable digests.',
        "Skill.uri": "The URI of the SKILL.md. It identifies the skill only together with the server.",
        "SkillResource.digest": "The SHA-256 of the bytes of the file: `sha256:` and 64 lowercase hexadecimal digits.",
        "SkillResource.size": "In bytes, before any encoding.",
        "SkillsExtensionCapability.directoryRead": "Whether the server has `resources/directory/read`; None means no.",
    },
    "tasks": {
        "createdAt": "An ISO 8601 time.",
        "inputRequests": "The open questions by their keys, which the task never uses again.",
        "pollIntervalMs": "The time to wait between two polls of the task, in milliseconds; None if any is suitable.",
        "result": "The result that the request would have had without a task.",
        "error": "The error that the request would have ended with without a task.",
        "inputResponses": "The answers by the keys of their questions.",
        "ttlMs": "The time that the task is kept after its creation, in milliseconds; None for no limit.",
    },
}
"""By class and name on the wire, or by the name alone in every class."""
