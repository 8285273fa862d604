from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from firstsight.data import load_dataset
from firstsight.errors import BadInput
from firstsight.evaluation import fit_on
from firstsight.methods import CMT, ESZSL, GFZSL, DeepEmbedding, TransductiveDeepEmbedding
from firstsight.persistence.class_table import add_classes, remove_classes
from firstsight.persistence.model_folder import load, save

QUICK = {"embedding_dim": 16, "learning_rate": 1e-2, "iterations": 8, "batch_size": 16, "semantic_steps": 10}
# The last three treat a class differently if they had rows of it or learned from a pool.
MODELS = {
    "eszsl": ESZSL(feature_penalty=0.02),
    "deep": DeepEmbedding(**QUICK, random_state=0),
    "transductive": TransductiveDeepEmbedding(**QUICK, rounds=2, round_iterations=1, random_state=0),
    "gaussians of seen classes": GFZSL(seen_gaussians="estimated"),
    "novelty": CMT(**{**CMT.quick, "novelty": "gaussian", "random_state": 0}),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request, small):
    return fit_on(MODELS[request.param], small)


def _rows(small):
    return small.features[np.concatenate([small.test_seen, small.test_unseen])]


@pytest.mark.parametrize("kind", ["seen", "unseen", "several"])
def test_a_class_removed_and_added_back_gives_the_same_answers_bit_for_bit(model, small, kind, tmp_path):
    X = _rows(small)
    names = {
        "seen": [small.seen_classes[2]],
        "unseen": [small.unseen_classes[5]],
        "several": [*small.unseen_classes[3:6], *small.seen_classes[:4]],
    }[kind]
    before = model.decision_function(X)
    without = remove_classes(model, names)
    assert not set(names) & set(without.classes_)
    assert not set(names) & set(without.predict(X))
    kept = np.isin(model.classes_, without.classes_)
    np.testing.assert_allclose(without.decision_function(X), before[:, kept], rtol=1e-4, atol=1e-4)
    save(without, tmp_path / "model")  # what is needed to come back is saved, too
    again = add_classes(load(tmp_path / "model"), small.descriptions.loc[names[::-1]])
    assert again.classes_.tolist() == model.classes_.tolist()
    assert again.seen_code_.tolist() == model.seen_code_.tolist()
    assert again.decision_function(X).tobytes() == before.tobytes()
    assert again.predict(X).tolist() == model.predict(X).tolist()
    assert model.decision_function(X).tobytes() == before.tobytes()  # the model that was given is as it was


def test_a_new_class_is_answered_as_if_it_had_been_given_to_predict(model, small):
    X = _rows(small)
    table = small.descriptions.loc[list(small.unseen_classes[:3])].rename(index="new {}".format)
    larger = add_classes(model, table)
    assert larger.classes_.tolist() == [*model.classes_.tolist(), *table.index]
    assert set(larger.unseen_classes_) == set(model.unseen_classes_) | set(table.index)
    names = [*small.unseen_classes[3:], *table.index]
    whole = pd.concat([small.descriptions.loc[list(small.unseen_classes[3:])], table])
    assert larger.predict(X, classes=names).tolist() == model.predict(X, classes=whole).tolist()
    assert set(larger.predict(X, classes=names)) & set(table.index)


def test_what_a_pool_was_called_is_still_told_by_place(small):
    model = fit_on(MODELS["transductive"], small)
    told = np.append(model.classes_, "gone")[model.pool_predictions_]
    name = next(iter(set(told[-1]) & set(small.unseen_classes)))
    without = remove_classes(model, [name])
    assert np.append(without.classes_, "gone")[without.pool_predictions_].tolist() == (
        np.where(told == name, "gone", told).tolist()
    )


def test_a_description_is_changed_only_when_asked(small):
    model = fit_on(ESZSL(feature_penalty=0.02, attribute_scaling=None), small)
    name = small.seen_classes[1]
    table = small.descriptions.loc[[name]] * 0 + 7
    with pytest.raises(BadInput, match=rf"has class '{name}' already; give --replace"):
        add_classes(model, table)
    changed = add_classes(model, pd.concat([table, table.rename(index={name: "yak"})]), replace=True)
    place = model.classes_.tolist().index(name)
    assert changed.descriptions_[place].tolist() == [7] * 6
    assert changed.seen_code_[place] == model.seen_code_[place] >= 0
    assert changed.classes_.tolist() == [*model.classes_.tolist(), "yak"]
    assert model.descriptions_[place].tolist() == small.descriptions.loc[name].tolist()


def test_numbered_classes_stay_numbers(small):
    model = ESZSL().fit(small.part("train")[0], small.labels[small.train], small.description_matrix)
    table = pd.DataFrame([[1, 0, 1, 0, 1, 0]], index=["99"])  # as a CSV file gives it
    assert add_classes(model, table).classes_.tolist() == [*range(24), 99]
    with pytest.raises(BadInput, match="are numbers, and 'yak' is not one"):
        add_classes(model, table.rename(index={"99": "yak"}))
    assert remove_classes(model, [3]).classes_.tolist() == [c for c in range(24) if c != 3]


BAD_TABLES = {
    "two rows for class 'yak'": pd.DataFrame(np.ones((2, 6)), index=["yak", "yak"]),
    "describes each class by 5 numbers": pd.DataFrame(np.ones((1, 5)), index=["yak"]),
    "NaN": pd.DataFrame([[1, 2, 3, 4, 5, np.nan]], index=["yak"]),
    "not numbers": pd.DataFrame([["a"] * 6], index=["yak"]),
    "no rows": pd.DataFrame(np.ones((0, 6))),
}


@pytest.mark.parametrize("said", BAD_TABLES)
def test_tables_that_cannot_be_used_are_one_sentence(eszsl, said):
    with pytest.raises(BadInput, match=said) as caught:
        add_classes(eszsl, BAD_TABLES[said])
    assert "\n" not in str(caught.value)


def test_a_list_is_no_table_and_the_last_class_stays(eszsl):
    with pytest.raises(BadInput, match="must come as a DataFrame"):
        add_classes(eszsl, [[1, 2]])
    with pytest.raises(BadInput, match="leave at least one"):
        remove_classes(eszsl, eszsl.classes_.tolist())
    with pytest.raises(BadInput, match="Unknown class 'kind qq'; did you mean 'kind q'"):
        remove_classes(eszsl, ["kind qq"])


def test_attributes_are_matched_by_name_whatever_the_order_before_and_after_saving(model, small, tmp_path):
    X = _rows(small)
    table = small.descriptions.loc[list(small.unseen_classes[:3])].rename(index="new {}".format)
    turned = table[table.columns[::-1]]
    assert table.to_numpy().tolist() != turned.to_numpy().tolist()
    save(model, tmp_path / "model")
    for own in (model, load(tmp_path / "model")):
        one, other = (add_classes(own, given) for given in (table, turned))
        assert one.decision_function(X).tobytes() == other.decision_function(X).tobytes()
        for wrong in (table.rename(columns={"trait 0": "trait_0"}), table.drop(columns="trait 0")):
            with pytest.raises(BadInput, match="trait 0"):
                add_classes(own, wrong)


@pytest.mark.parametrize("name", ["Class_3", "class-3", "cl\u200bass 3", "\uff43lass 3"])
def test_a_name_that_may_be_meant_as_another_is_told(small, caplog, name):
    model = fit_on(ESZSL(), replace(small, class_names=("class 3", *map(str, range(1, len(small.class_names))))))
    larger = add_classes(model, small.descriptions.iloc[:1].set_axis([name], axis="index"))
    assert f"the class {name!r} may be meant as 'class 3'; the model now knows both" in caplog.text
    assert name in larger.classes_


def test_a_name_that_only_has_other_code_points_is_refused(small):
    model = fit_on(ESZSL(), replace(small, class_names=("caf\u00e9", *map(str, range(1, len(small.class_names))))))
    with pytest.raises(BadInput, match=r"looks the same as one .* \('cafe\\u0301', and 'caf\\xe9'\)"):
        add_classes(model, small.descriptions.iloc[:1].set_axis(["cafe\u0301"], axis="index"))
    both = small.descriptions.iloc[:2].set_axis(["\u00c5", "A\u030a"], axis="index")
    with pytest.raises(BadInput, match="looks the same"):
        add_classes(model, both)


@pytest.mark.slow
def test_on_cub_ten_thousand_classes_take_less_than_a_second_and_one_comes_back_bit_for_bit(shared, tmp_path):
    cub = load_dataset(shared / "data" / "xlsa17" / "CUB")
    model, X = fit_on(ESZSL(), cub), cub.part("test_unseen")[0]
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.random((10_000, 312)), index=[f"new {i}" for i in range(10_000)])
    began = time.process_time()  # others may use the machine, too
    larger = add_classes(model, table)
    save(larger, tmp_path / "model")
    seconds = time.process_time() - began
    assert len(load(tmp_path / "model").classes_) == 10_200
    assert seconds < 1, f"{seconds:.2f} s with the saving"
    before = model.decision_function(X)
    for name in (cub.unseen_classes[7], cub.seen_classes[70]):
        again = add_classes(remove_classes(model, [name]), cub.descriptions.loc[[name]])
        assert again.decision_function(X).tobytes() == before.tobytes()
        # Added back at prediction time, too: the description is all that it takes.
        others = cub.descriptions.loc[list(remove_classes(model, [name]).classes_)]
        given = pd.concat([others, cub.descriptions.loc[[name]]]).loc[list(model.classes_)]
        assert model.decision_function(X, classes=given).tobytes() == before.tobytes()
