"""Every method × every promise of the contract."""

from __future__ import annotations

from functools import cache

import pytest

from firstsight.contract import CHECKS, Trial, exemptions
from firstsight.contract.trial import EXEMPTIONS
from firstsight.methods import all_methods


@cache
def trial_of(word: str) -> Trial:
    """One trial per method: its checks share the fitted model."""
    return Trial(all_methods()[word])


def every_pair():
    for word, method in all_methods().items():
        freed = exemptions(method)
        for name in CHECKS:
            # Strict: a check that an exempted method passes after all is an exemption to strike out.
            marks = [pytest.mark.xfail(reason=freed[name], strict=True)] if name in freed else []
            yield pytest.param(word, name, id=f"{word}-{name.removeprefix('check_')}", marks=marks)


@pytest.mark.parametrize(("word", "name"), list(every_pair()))
def test_method_keeps_its_promise(word, name):
    CHECKS[name](trial_of(word))


def test_every_exemption_names_a_method_and_a_check_and_gives_a_reason():
    kinds = {"transductive", "shared_space", *(method.__name__ for method in all_methods().values())}
    for (kind, check), reason in EXEMPTIONS.items():
        assert kind in kinds
        assert check in CHECKS
        assert len(reason.split()) >= 5
