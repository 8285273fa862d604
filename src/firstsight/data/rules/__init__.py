"""What must hold in a data set and what deserves a look, each rule written once.

Every rule is a function from an `UncheckedDataset` to findings. Quick ones run whenever a data set is made, which
raises the first error among them; deep ones look for what is odd rather than wrong, and run in the audit only.
"""

from firstsight.data.rules.finding import Finding
from firstsight.data.rules.order import all_findings, quick_findings

__all__ = ["Finding", "all_findings", "quick_findings"]
