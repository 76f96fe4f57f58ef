"""Tools, resources and prompts with every kind of content; the suite compares their results word for word."""

from __future__ import annotations

import base64
import json
from typing import Annotated

import msgspec

from trio_mcp import Audio, Image, Server, ToolError, types

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
"""One pixel."""
WAV = base64.b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA==")
"""One sample of silence."""


def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


def test_image_content() -> Image:
    """Return a picture."""
    return Image(PNG, "image/png")


def test_audio_content() -> Audio:
    """Return a sound."""
    return Audio(WAV, "audio/wav")


def test_embedded_resource() -> types.EmbeddedResource:
    """Return a resource inside of the result."""
    return _embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")


def test_multiple_content_types() -> list[str | Image | types.EmbeddedResource]:
    """Return a text, a picture and a resource."""
    return [
        "Multiple content types test:",
        Image(PNG, "image/png"),
        _embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ]


def test_error_handling() -> str:
    """Fail with a message for the model."""
    raise ToolError("This tool intentionally returns an error for testing")


def test_x_mcp_header(
    region: Annotated[str, msgspec.Meta(extra_json_schema={"x-mcp-header": "Region"})] = "nowhere",  # noqa: PT028 # no test
) -> str:
    """Return the value of a parameter that clients mirror into the header field `Mcp-Param-Region`."""
    return f"The region is {region}"


CONTENT_TOOLS = (
    test_simple_text,
    test_image_content,
    test_audio_content,
    test_embedded_resource,
    test_multiple_content_types,
    test_error_handling,
    test_x_mcp_header,
)


def add_resources(server: Server) -> None:
    """Add the resources, and the one template."""
    text = "This is the content of the static text resource."
    server.resources.add_static("test://static-text", text, name="static-text", description="A text")
    server.resources.add_static(
        "test://static-binary", PNG, name="static-binary", description="A picture", mime_type="image/png"
    )
    server.resources.add_static(
        "test://watched-resource", "Watched.", name="watched-resource", description="One to subscribe to"
    )

    @server.resource("test://template/{id}/data", mime_type="application/json")
    def template_data(id: str) -> str:
        """Data by an id."""
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


def add_prompts(server: Server) -> None:
    """Add the prompts that ask nothing, and the one completion."""

    @server.prompt
    def test_simple_prompt() -> str:
        """Say something."""
        return "This is a simple prompt for testing."

    @server.prompt
    def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        """Repeat both arguments."""
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @server.completion(prompt="test_prompt_with_arguments", argument="arg1")
    def first_argument(typed: str) -> list[str]:
        return [word for word in ("paris", "park", "party", "test", "testing") if word.startswith(typed)]

    @server.prompt
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[types.EmbeddedResource | str]:  # noqa: N803 # the suite's word
        """Show a resource, and ask to work on it."""
        return [
            _embedded(resourceUri, "text/plain", "Embedded resource content for testing."),
            "Please process the embedded resource above.",
        ]

    @server.prompt
    def test_prompt_with_image() -> list[Image | str]:
        """Show a picture, and ask to look at it."""
        return [Image(PNG, "image/png"), "Please analyze the image above."]


def _embedded(uri: str, mime_type: str, text: str) -> types.EmbeddedResource:
    return types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, mime_type=mime_type, text=text))
