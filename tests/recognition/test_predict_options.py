from __future__ import annotations

import inspect

import pytest

from firstsight.cli.predict import predict
from firstsight.errors import BadInput
from firstsight.recognition import PredictOptions, Recognizer

DEFAULTS = {name: field.default for name, field in PredictOptions.model_fields.items()}


def _defaults(function) -> dict[str, object]:
    parameters = inspect.signature(function).parameters
    return {name: parameters[name].default for name in DEFAULTS}


def test_python_the_command_and_http_have_the_same_options_with_the_same_defaults():
    pytest.importorskip("fastapi")
    from firstsight.serving.wire_schema import PredictQuery

    assert _defaults(Recognizer.predict) == DEFAULTS
    assert _defaults(predict) == {**DEFAULTS, "top": None}  # 1, or 5 on a page
    assert {name: field.default for name, field in PredictQuery.model_fields.items()} == {**DEFAULTS, "why": True}


@pytest.mark.parametrize("option", [{"top": 0}, {"reject_share": 1.0}, {"reject_far": "maybe"}, {"accept_all": True}])
def test_an_option_that_cannot_be_right_is_named(eszsl, small, option, tmp_path):
    (name,) = option
    with pytest.raises(BadInput, match=name):
        PredictOptions.checked(**option)
    with pytest.raises((BadInput, TypeError), match=name):
        Recognizer(eszsl).predict(small.features[:2], **option)
