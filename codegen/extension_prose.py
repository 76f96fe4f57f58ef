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
}
"""By class and name on the wire, or by the name alone in every class."""
