"""The deployments of `examples/deployment`: their files are valid, and the options in them exist."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.examples.test_examples import EXAMPLES
from trio_mcp.cli._arguments import read_arguments

FOLDER = EXAMPLES / "deployment"


def words_of_image() -> list[str]:
    """Return the command line of the image, without its options."""
    lines = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
    words: list[str] = json.loads(re.findall(r"ENTRYPOINT (.*)", lines)[0])
    assert words[0] == "trio-mcp"
    return words[1:]


def test_the_command_of_the_image_serves_with_options_that_exist() -> None:
    lines = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
    options = read_arguments([*words_of_image(), *json.loads(re.findall(r"CMD (.*)", lines)[0])])

    assert (options.http, options.shared, options.ready_path) == (8000, "redis://redis:6379/0", "/readyz")


def test_the_pods_of_kubernetes_serve_with_options_that_exist_and_are_checked_at_their_paths() -> None:
    deployment, service = yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text(encoding="utf-8"))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    options = read_arguments([*words_of_image(), *container["args"]])

    assert options.health_path == container["livenessProbe"]["httpGet"]["path"]
    assert options.ready_path == container["readinessProbe"]["httpGet"]["path"]
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"]
    grace: int = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace > options.drain_delay + 5 + 10  # Limits.drain_seconds and Limits.stop_seconds


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_every_file_is_described_or_used(path: Path) -> None:
    others = "".join(each.read_text(encoding="utf-8") for each in FOLDER.iterdir() if each != path)

    assert path.name in others or path.name in {"Dockerfile", "compose.yaml", "kubernetes.yaml"}


def test_the_services_of_compose_depend_on_one_another_as_they_are_named() -> None:
    compose: Any = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
    services = compose["services"]
    configuration = (FOLDER / "haproxy.cfg").read_text(encoding="utf-8")

    assert {*services["server"]["depends_on"], *services["haproxy"]["depends_on"]} <= services.keys()
    assert f"server-template node {services['server']['deploy']['replicas']} server:8000" in configuration
