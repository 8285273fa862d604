"""One's own data as an xlsa17 folder: our reader and SciPy read back what was given, and no split reaches another."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.io import loadmat

from firstsight.data import audit, make_dataset, read_xlsa17
from firstsight.data.proposed_splits import propose_splits, write_xlsa17
from firstsight.errors import BadInput, FirstsightWarning, UnknownName

NAMES = ["ox", "zebra", "okapi", "lion", "Tüpfelhyäne", "horse", "no pictures"]


@pytest.fixture
def own():
    random = np.random.default_rng(0)
    labels = random.permutation(np.repeat(NAMES[:6], [8, 5, 7, 1, 6, 9]))
    features = random.normal(size=(len(labels), 12)).astype(np.float32)
    table = pd.DataFrame(random.uniform(0, 9, size=(7, 4)), index=NAMES, columns=["a", "b", "c", "d"])
    return features, labels.tolist(), table


def test_what_is_written_is_what_was_given(own, tmp_path):
    features, labels, table = own
    names = [f"{i}.jpg" for i in range(len(labels))]
    proposal = propose_splits("farm", features, labels, table, ["okapi", "zebra"], sample_names=names)
    assert proposal.without_rows == ("no pictures",)
    write_xlsa17(tmp_path / "farm", proposal, "resnet 50/x")
    data = read_xlsa17(tmp_path / "farm")
    np.testing.assert_array_equal(data.features, features)
    assert data.y.tolist() == labels
    assert data.class_names == tuple(NAMES[:6])
    assert data.sample_names == tuple(names)
    assert data.unseen_classes == ["zebra", "okapi"]
    assert audit(tmp_path / "farm").ok
    assert [f for f in audit(tmp_path / "farm").findings if f.severity != "note"] == []
    expected = table.loc[NAMES[:6]].to_numpy()
    expected = expected / np.sqrt((expected**2).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(data.description_matrix, expected, rtol=1e-5)


def test_other_peoples_code_reads_it(own, tmp_path):
    features, labels, table = own
    write_xlsa17(tmp_path / "farm", propose_splits("farm", features, labels, table, 0.34), "res101")
    # These lines are how public zero-shot code begins.
    content, splits = loadmat(tmp_path / "farm" / "res101.mat"), loadmat(tmp_path / "farm" / "att_splits.mat")
    feature, label = content["features"].T, content["labels"].astype(int).squeeze() - 1
    trainval = splits["trainval_loc"].squeeze() - 1
    unseen = splits["test_unseen_loc"].squeeze() - 1
    names = [str(name[0][0]) for name in splits["allclasses_names"]]
    assert [names[i] for i in label] == labels
    np.testing.assert_array_equal(feature, features)
    assert splits["att"].T.shape == (6, 4)
    np.testing.assert_allclose(np.linalg.norm(splits["att"].T, axis=1), 1)
    np.testing.assert_allclose(splits["original_att"].T, table.loc[names].to_numpy(), rtol=1e-6)
    assert not set(label[trainval]) & set(label[unseen])
    assert len(set(label[unseen])) == 2


@pytest.mark.parametrize("seed", range(5))
def test_no_split_reaches_into_another(own, seed, tmp_path):
    features, labels, table = own
    write_xlsa17(tmp_path / "farm", propose_splits("farm", features, labels, table, random_state=seed))
    splits = loadmat(tmp_path / "farm" / "att_splits.mat")
    loc = {k: set(v.ravel().tolist()) for k, v in splits.items() if k.endswith("_loc")}
    classes = {k: {labels[i - 1] for i in rows} for k, rows in loc.items()}
    assert not loc["trainval_loc"] & loc["test_seen_loc"]
    assert not classes["trainval_loc"] & classes["test_unseen_loc"]
    assert classes["test_seen_loc"] <= classes["trainval_loc"]
    assert loc["train_loc"] | loc["val_loc"] == loc["trainval_loc"]
    assert loc["train_loc"]
    assert loc["val_loc"]
    assert not classes["train_loc"] & classes["val_loc"]
    assert loc["trainval_loc"] | loc["test_seen_loc"] | loc["test_unseen_loc"] == set(range(1, len(labels) + 1))


def test_arrays_and_a_table_make_a_data_set(own):
    features, labels, table = own
    data = make_dataset(features, labels, table, unseen="okapi", name="farm")
    assert data.unseen_classes == ["okapi"]
    assert data.name == "farm"
    np.testing.assert_array_equal(data.descriptions.loc["ox"], table.loc["ox"].astype(np.float32))
    table.loc["ox"] = table.loc["horse"]
    with pytest.warns(FirstsightWarning, match="'ox' and 'horse' have the same description"):
        make_dataset(features, labels, table)
    with pytest.raises(BadInput, match="35 entries, but there are 36 rows"):
        make_dataset(features, labels[1:], table)


def test_what_cannot_be_split_is_one_sentence(own, tmp_path):
    features, labels, table = own
    with pytest.raises(UnknownName, match="did you mean 'okapi'"):
        propose_splits("farm", features, labels, table, ["okappi"])
    with pytest.raises(BadInput, match="at least 2 to learn from"):
        propose_splits("farm", features, labels, table, NAMES[:5])
    with pytest.raises(BadInput, match="between 0 and 1"):
        propose_splits("farm", features, labels, table, 3.0)
    with pytest.raises(BadInput, match=r"class 'ox'.*no such row"):
        propose_splits("farm", features, labels, table.drop(index="ox"))
    with pytest.raises(BadInput, match="'ox' more than once"):
        propose_splits("farm", features, labels, pd.concat([table, table.loc[["ox"]]]))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("years of work")
    with pytest.raises(BadInput, match="not an empty folder"):
        write_xlsa17(tmp_path / "full", propose_splits("farm", features, labels, table))
    assert (tmp_path / "full" / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("unseen", [[5], np.array([5]), ["5"]])
def test_classes_may_be_numbers_wherever_they_are_named(unseen):
    data = make_dataset(np.random.default_rng(0).random((60, 4)), np.arange(60) % 6, pd.DataFrame(np.eye(6)), unseen)
    assert data.unseen_classes == ["5"]
