from __future__ import annotations

import pytest

from firstsight.cli.options import read_assignments
from firstsight.errors import BadInput, UnknownName
from firstsight.methods import DeepEmbedding, make_estimator


@pytest.mark.parametrize(
    ("word", "name", "value"),
    [
        ("iterations=7", "iterations", 7),
        ("separation=3", "separation", 3),
        ("separation=1e2", "separation", 100.0),
        ("penalty=0.5", "penalty", 0.5),
        ("feature_scaling=none", "feature_scaling", None),
        ("feature_scaling=None", "feature_scaling", None),
        ("feature_scaling=null", "feature_scaling", None),
        ("feature_scaling=unit", "feature_scaling", "unit"),
        ("feature_scaling='unit'", "feature_scaling", "unit"),
        ("schedule=cosine", "schedule", "cosine"),
        ("verbose=true", "verbose", True),
        ("verbose=False", "verbose", False),
    ],
)
def test_words_become_values_of_the_right_type(word, name, value):
    found = make_estimator("deep-embedding", read_assignments([word])).get_params()[name]
    assert found == value
    assert type(found) is type(value)


def test_what_is_not_set_keeps_its_default_and_the_last_of_two_wins():
    made = make_estimator("deep-embedding", read_assignments(["iterations=3", "iterations=4"]), random_state=5)
    expected = {**DeepEmbedding().get_params(), "iterations": 4, "random_state": 5}
    assert made.get_params() == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["iterations"], "must have the form NAME=VALUE"),
        (["itterations=3"], "Unknown parameter of deep-embedding 'itterations'; did you mean 'iterations'"),
        (["iterations=0"], "'iterations' parameter .* must be .*Got 0 instead"),
        (["iterations=many"], "'iterations' parameter .*Got 'many' instead"),
        (["iterations=2.5"], "'iterations' parameter .*Got 2.5 instead"),
        (["iterations="], "'iterations' parameter .*Got '' instead"),
        (["iterations={[]: 1}"], "'iterations' parameter"),
        (["separation=1e999"], "not a finite number"),
        (["separation=nan"], "'separation' parameter"),
        (["schedule=cosin"], "'schedule' parameter"),
        (["preset=papers"], "'preset' parameter .*'paper'"),
        (["random_state=3"], "--seed sets it"),
        (["setting=zsl"], "--setting sets it"),
        (["iterations=__import__('os').getcwd()"], "'iterations' parameter"),
    ],
)
def test_a_word_that_is_wrong_is_refused(words, message):
    with pytest.raises(BadInput, match=f"(?s){message}"):
        make_estimator("deep-embedding", read_assignments(words))


@pytest.mark.parametrize("name", ["deep-embedding", "DeepEmbedding", "deep_embedding", "DEEP-EMBEDDING"])
def test_a_method_answers_to_its_word_and_its_class_name(name):
    assert type(make_estimator(name)) is DeepEmbedding


def test_an_unknown_method_is_answered_with_the_nearest():
    with pytest.raises(UnknownName, match="Unknown method 'deep-embeding'; did you mean 'deep-embedding'"):
        make_estimator("deep-embeding")


def test_a_preset_belongs_to_methods_that_have_one():
    assert make_estimator("deep-embedding", read_assignments([], "paper")).preset == "paper"
    with pytest.raises(BadInput, match="eszsl has no presets"):
        make_estimator("eszsl", read_assignments([], "paper"))
    with pytest.raises(BadInput, match="'preset' parameter"):
        make_estimator("deep-embedding", read_assignments([], "papers"))


def test_what_a_command_supplies_goes_to_methods_that_know_it():
    more = {"checkpoint": "here", "setting": "zsl"}
    inductive = make_estimator("deep-embedding", random_state=3, **more)
    assert (inductive.checkpoint, inductive.random_state, hasattr(inductive, "setting")) == ("here", 3, False)
    assert make_estimator("transductive-deep-embedding", random_state=3, **more).setting == "zsl"
    assert "checkpoint" not in make_estimator("eszsl", random_state=3, **more).get_params()
