from __future__ import annotations

from firstsight.recognition.scoring import score_answers


def test_rows_whose_class_is_no_candidate_do_not_count():
    truth = ["ox", "ox", "yak", None, "gnu", "yak"]
    answers = ["ox", "yak", "yak", "ox", "ox", "ox"]
    found = score_answers(truth, answers, ["ox", "yak"])
    assert (found.rows, found.right) == (4, 2)
    assert found.per_class == {"ox": 0.5, "yak": 0.5}
    assert found.confusions.to_numpy().tolist() == [["ox", "yak", 1], ["yak", "ox", 1]]
    assert score_answers(truth, answers, ["emu"]) is None


def test_a_class_counts_the_same_whatever_its_rows():
    found = score_answers(["ox"] * 3 + ["yak"], ["ox"] * 4, ["ox", "yak"])
    assert found.accuracy == 0.75
    assert found.mean_class_accuracy == 0.5
    assert str(found) == ("3 of 4 right (75.0 %; mean over 2 classes: 50.0 %).\nMost often: yak taken for ox (1).")


def test_pairs_beyond_the_five_that_are_shown_are_counted():
    for pairs, end in ((5, "(1)."), (6, "(1) and 1 other pairs.")):
        truth = [f"class {number}" for number in range(pairs)]
        found = score_answers(truth, ["other"] * pairs, [*truth, "other"])
        assert str(found).endswith(end)


def test_samples_of_which_training_is_unknown_are_one_part():
    found = score_answers(["ox", "yak"], ["ox", "ox"], ["ox", "yak"])
    assert {part: score.rows for part, score in found.by_training.items()} == {None: 2}
