from __future__ import annotations

from firstsight.evaluation import fit_on
from firstsight.methods import ESZSL, KernelPrototypes
from firstsight.persistence.model_folder import save
from firstsight.persistence.model_schema import escape

FACTS = {
    "dataset": "farm *2*",
    "split": "0123abcd",
    "seed": 7,
    "parameters": {"feature_penalty": 10.0},
    "backbone": {"name": "resnet50", "fingerprint": "beef", "dim": 16},
}


def test_the_card_tells_what_the_model_file_says(calibrated, small, tmp_path):
    save(calibrated, tmp_path / "model", FACTS)
    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert card.startswith("# ESZSL model\n")
    for word in ("14 with labelled", "10 known by their description", "0123abcd", "seed: 7", "resnet50", "beef"):
        assert word in card
    assert f"{100 * calibrated.calibration_.estimate['t1']:.1f} %" in card
    assert small.unseen_classes[0] in card
    assert r"farm \*2\*" in card


def test_without_a_calibration_the_card_promises_nothing(eszsl, tmp_path):
    save(eszsl, tmp_path / "model")
    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert "No estimate was made" in card
    assert "%" not in card


def test_the_card_tells_that_samples_were_added_after_what_was_measured(small, tmp_path):
    def card(**facts):
        save(model, tmp_path / "model", facts)
        return (tmp_path / "model" / "README.md").read_text(encoding="utf-8")

    model = fit_on(KernelPrototypes(search=False, refinement=0, hidden=0), small)
    assert "were added" not in card(evaluation={"t1": 0.5})
    model.add_samples(*(part[:3] for part in small.part("test_unseen")))
    assert "measured before labelled samples were added to the model (now 3)" in card(evaluation={"t1": 0.5})
    assert "were added" not in card()  # nothing was measured


def test_class_names_are_shown_and_never_obeyed(small, tmp_path):
    evil = '<script>alert("x")</script>\n# [Click](http://evil) `rm` | _x_'
    table = small.descriptions.rename(index={small.unseen_classes[0]: evil})
    save(ESZSL().fit(*small.part("train"), table), tmp_path / "model")
    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert "<script>" not in card
    assert "\n# [" not in card
    assert "[Click](http" not in card
    assert escape(evil) in card
    assert escape("a\\b*") == "a\\\\b\\*"
