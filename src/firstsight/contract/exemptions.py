"""The one table of what a method need not promise, and why."""

from __future__ import annotations

# (class name, or "transductive" for every method that declares itself so; check) → reason. The tests
# expect each of these checks to fail: an exemption that is no longer needed is an error.
EXEMPTIONS: dict[tuple[str, str], str] = {
    ("transductive", "check_unseen_descriptions_do_not_leak"): (
        "a transductive method is fitted for the unseen classes that it is given; it declares this"
    ),
    ("transductive", "check_new_classes_need_no_retraining"): (
        "its fit depends on which unseen classes it is given; later ones are scored by a fit without them"
    ),
    ("Cosine", "check_learns_nothing_from_shuffled_labels"): (
        "it uses no labels: what it knows came with the space that rows and descriptions share"
    ),
}


def exemptions(cls: type) -> dict[str, str]:
    """The checks that a method is freed from, with the reason."""
    kinds = {cls.__name__} | ({"transductive"} if getattr(cls, "transductive", False) else set())
    return {check: reason for (kind, check), reason in EXEMPTIONS.items() if kind in kinds}
