from __future__ import annotations

import numpy as np
import pytest

from firstsight.data import write_npz
from firstsight.errors import BadInput, StaleCheckpoint
from firstsight.evaluation import fit_on
from firstsight.methods import ESZSL, DeepEmbedding, TransductiveDeepEmbedding
from firstsight.persistence.model_folder import load
from firstsight.recognition import fit, learning


@pytest.mark.parametrize("method", ["eszsl", ESZSL, ESZSL()], ids=["word", "class", "estimator"])
def test_a_fit_is_the_methods_own(small, tmp_path, method):
    place = write_npz(small, tmp_path / "small.npz")
    for data in (small, place):
        made = fit(method, data)
        assert made.model.decision_function(small.features).tobytes() == (
            fit_on(ESZSL(), small).decision_function(small.features).tobytes()
        )
        assert (made.provenance.dataset, made.provenance.split) == ("small", small.split_hash)
        assert made.provenance.features == small.features_fingerprint


def test_confidence_is_measured_when_asked(small):
    assert fit("eszsl", small).predict(small.features[:3]).confidence is None
    made = fit("eszsl", small, confidence=True)
    assert made.predict(small.features[:3], top=24).confidence.sum(axis=1) == pytest.approx(np.ones(3))
    assert made.model.calibration_.n_folds == 3


def test_out_saves_and_no_checkpoint_is_left(small, quick, tmp_path):
    made = fit("deep-embedding", small, parameters=quick["deep-embedding"], out=tmp_path / "model", confidence=True)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert made.model.checkpoint is None
    again = load(tmp_path / "model")
    assert again.decision_function(small.features).tobytes() == made.model.decision_function(small.features).tobytes()


def test_an_estimator_keeps_its_own_seed_and_stays_unfitted(small, quick):
    own = DeepEmbedding(**quick["deep-embedding"], random_state=7)
    made = fit(own, small)
    assert made.model.random_state == made.provenance.seed == 7
    assert not hasattr(own, "classes_")


def test_a_seed_and_a_setting_that_a_call_names_are_those_of_the_fit(small, quick):
    own = TransductiveDeepEmbedding(**quick["transductive-deep-embedding"], random_state=7, setting="gzsl")
    made = fit(own, small, random_state=1, setting="zsl")
    assert (made.model.random_state, made.model.setting, made.provenance.seed) == (1, "zsl", 1)
    assert (own.random_state, own.setting) == (7, "gzsl")
    assert fit("deep-embedding", small, parameters=quick["deep-embedding"]).provenance.seed == 0
    with pytest.raises(BadInput, match="'setting' parameter"):
        fit(own, small, setting="both")


def test_a_place_that_is_taken_is_told_before_the_fit(small, tmp_path, monkeypatch):
    (tmp_path / "thesis").mkdir()
    monkeypatch.setattr(ESZSL, "fit", lambda *_: pytest.fail("fitted"))
    with pytest.raises(BadInput, match="is not a model folder"):
        fit("eszsl", small, out=tmp_path / "thesis")


def test_a_refused_fit_leaves_nothing_and_another_fits_state_stays(small, quick, tmp_path, monkeypatch):
    monkeypatch.setenv("FIRSTSIGHT_CHECKPOINT_SECONDS", "0")

    def refuse(*_, **__):
        assert (tmp_path / "model.checkpoint").exists()
        raise BadInput("The scores are not finite.")

    monkeypatch.setattr(learning, "forget_checkpoint", refuse)  # after the fit, with its state still there
    with pytest.raises(BadInput, match="not finite"):
        fit("deep-embedding", small, parameters=quick["deep-embedding"], out=tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "model.checkpoint").write_bytes(b"of another fit")
    with pytest.raises(StaleCheckpoint):
        fit("deep-embedding", small, parameters=quick["deep-embedding"], out=tmp_path / "model")
    with pytest.raises(BadInput, match="nosuch"):
        fit("deep-embedding", tmp_path / "nosuch", out=tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model.checkpoint"]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_a_method_without_a_state_finds_in_its_place_stays(small, tmp_path, kind):
    place = tmp_path / "model.checkpoint"
    place.mkdir() if kind == "folder" else place.write_bytes(b"of another fit")
    fit("eszsl", small, out=tmp_path / "model")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "model.checkpoint"]


def test_only_the_states_of_folds_are_removed_beside_a_fits_own(small, quick, tmp_path, monkeypatch):
    monkeypatch.setenv("FIRSTSIGHT_CHECKPOINT_SECONDS", "0")
    (tmp_path / "model.checkpoint.folds.csv").write_text("somebody's")
    (tmp_path / "model.checkpoint.folder").mkdir()
    fit("deep-embedding", small, parameters=quick["deep-embedding"], out=tmp_path / "model", confidence=True)
    left = ["model", "model.checkpoint.folder", "model.checkpoint.folds.csv"]
    assert sorted(path.name for path in tmp_path.iterdir()) == left
