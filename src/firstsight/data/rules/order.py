"""The rules in the order in which their errors are told: what others rest on comes first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from firstsight.data.rules import descriptions, features, parts, sizes
from firstsight.data.rules.finding import Finding

if TYPE_CHECKING:
    from firstsight.data.unchecked import UncheckedDataset

_QUICK = (sizes.names_and_lengths, descriptions.usable, parts.rows, parts.classes, features.finite, features.named)
_DEEP = (descriptions.scale, parts.untrusted, features.odd_values)


def quick_findings(data: UncheckedDataset) -> Iterator[Finding]:
    """What loading asks."""
    for rule in _QUICK:
        yield from rule(data)


def all_findings(data: UncheckedDataset) -> list[Finding]:
    """What the audit asks, errors first."""
    return in_order([*quick_findings(data), *(finding for rule in _DEEP for finding in rule(data))])


def in_order(findings: list[Finding]) -> list[Finding]:
    """Errors, then warnings, then notes."""
    return sorted(findings, key=lambda finding: ("error", "warning", "note").index(finding.severity))
