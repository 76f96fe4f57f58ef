"""The program that compares the types with upstream, prints the result, and fails on any unexplained difference."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from codegen.align import align
from codegen.envelopes import complete
from codegen.merge import merge
from codegen.project import read_core, read_extensions, read_schemas, read_upstream, upstream_drift
from codegen.spec.extensions import ExtensionComparison
from codegen.spec.judge import Comparison
from codegen.spec.targets import Example, examples, survives

FEWEST = 10_000
"""The least number of messages that are judged in each revision."""
FEWEST_OF_EXTENSION = 2_000
"""The least number of messages that are judged of each extension."""
_SHOWN = 20


def verify(folder: Path) -> int:
    """Compare `schema/` and the types with the upstream files; return the exit status.

    Args:
        folder: holds `<revision>/schema.json`, `<newest revision>/examples/<type>/*.json` and `extensions/<name>.json`.
    """
    faults = upstream_drift(folder)
    if faults:
        # If the schemas differ, comparing the types would only repeat these differences.
        return _conclude(faults)
    documents = read_schemas()
    revisions = complete(align(documents))
    merged = merge(revisions)
    shown = list(examples(folder / revisions[-1].name / "examples"))
    faults.extend(_survival(shown, revisions[-1].name))
    from_examples: dict[str, list[Any]] = {}
    for example in shown:
        from_examples.setdefault(example.type_name, []).append(example.value)
    for revision, document in zip(revisions, documents, strict=True):
        raw = json.loads((folder / revision.name / "schema.json").read_text("utf-8"))
        comparison = Comparison(revision, merged, document, raw)
        comparison.run(from_examples if revision is revisions[-1] else {})
        _report(comparison)
        faults.extend(comparison.faults)
        if comparison.messages < FEWEST:
            faults.append(f"revision {revision.name}: judged by {comparison.messages} messages only")
    core = read_core()
    for document in read_extensions():
        extension = ExtensionComparison(document, read_upstream(folder, document), core, merged)
        extension.run()
        _report_extension(extension)
        faults.extend(extension.faults)
        if extension.messages < FEWEST_OF_EXTENSION:
            faults.append(f"extension {extension.name}: judged by {extension.messages} messages only")
    return _conclude(faults)


def _survival(shown: list[Example], newest: str) -> list[str]:
    print(f"{newest}: {len(shown)} example messages, each made into the type of its folder and back")
    faults = [] if shown else [f"revision {newest} comes without example messages"]
    for example in shown:
        for revision in (newest, None):
            outcome = survives(example, revision)
            if outcome is not None:
                faults.append(f"{example.path} (revision {revision}): {outcome}")
    return faults


def _conclude(faults: list[str]) -> int:
    for fault in faults[:_SHOWN]:
        print(f"FAULT {fault}")
    print(f"{len(faults)} faults" if faults else "no difference without a name")
    return 1 if faults else 0


def _report(comparison: Comparison) -> None:
    name = comparison.revision.name
    accepted = comparison.accepted.total()
    refused = comparison.messages - comparison.valid - accepted
    print(
        f"{name}: {comparison.messages} mutated messages of {comparison.kinds} kinds; "
        f"{comparison.valid} valid and accepted (and back, {comparison.without_nulls} of them without a null), "
        f"{refused} invalid and refused, {accepted} invalid and accepted:"
    )
    _report_reasons(comparison.accepted)


def _report_extension(comparison: ExtensionComparison) -> None:
    accepted, mistaken = comparison.accepted.total(), comparison.refused.total()
    refused = comparison.messages - comparison.valid - accepted - mistaken
    print(
        f"{comparison.name}: {comparison.messages} mutated messages of {len(comparison.kinds)} kinds; "
        f"{comparison.valid} valid and accepted (and back, {comparison.without_nulls} of them without a null), "
        f"{refused} invalid and refused, {mistaken} valid by mistake and refused, {accepted} invalid and accepted:"
    )
    _report_reasons(comparison.refused + comparison.accepted)


def _report_reasons(reasons: Counter[str]) -> None:
    for reason, count in reasons.most_common():
        print(f"    {count:6}  {reason}")
