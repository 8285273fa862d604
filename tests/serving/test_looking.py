"""Samples, the map, measured accuracy, the report, the counts, and the page of the API."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import threading
import time
from collections import Counter

import numpy as np
import pytest

from firstsight.evaluation import mean_class_accuracy
from firstsight.methods import ESZSL
from firstsight.recognition import Recognizer
from firstsight.recognition.scoring import remember_samples
from firstsight.serving import samples as landscape
from firstsight.serving.samples import SampleImages
from serving.small_server import CHANGE, LETTERS, UNSEEN


@pytest.fixture
def quick_layout(monkeypatch):
    """A plane without t-SNE's seconds: the first two coordinates."""
    monkeypatch.setattr(
        landscape, "lay_out", lambda s, c=None, *_: (s[:, :2], np.empty((0, 2)) if c is None else c[:, :2])
    )


def test_samples_are_of_every_class_and_their_pictures_can_be_recognised(serving, samples):
    client = serving(samples=samples)
    client.post("/api/classes/remove", json={"names": ["é"]}, headers=CHANGE)
    found = client.get("/api/samples", params={"limit": 20}).json()["samples"]
    assert {one["class"] for one in found} == set(LETTERS)
    assert {one["class"] for one in found if not one["known"]} == {"é"}
    assert all(one["seen"] == (one["class"] not in UNSEEN) for one in found if one["known"])
    picture = client.get(found[0]["url"])
    assert picture.headers["content-type"] == "image/png"
    answer = client.post("/api/predict", files={"pictures": ("x.png", picture.content)}, data={"reject_far": "false"})
    assert answer.json()["answers"][0]["top"]
    assert client.get("/api/samples/99999.png").status_code == 404


def test_without_samples_there_is_nothing_to_look_at(steady):
    for path in ("/api/samples", "/api/samples/0.png", "/api/map", "/api/measure", "/api/report", "/report/index.html"):
        answer = steady.get(path)
        assert answer.status_code == 404
        assert "start it with" in answer.json()["error"]


def test_a_taught_class_appears_on_the_map_among_the_samples_that_it_is_near(serving, samples, quick_layout, letters):
    client = serving(samples=samples)
    client.post("/api/classes/remove", json={"names": ["é"]}, headers=CHANGE)
    first = client.get("/api/map").json()
    assert [space["name"] for space in first["spaces"]] == ["space"]
    assert len(first["samples"]) == len(samples)
    assert not any(one["taught"] for one in first["classes"])
    body = {"name": "new", "attributes": {"base e": 1, "mark acute": 1}, "rest": 0}
    client.post("/api/classes", json=body, headers=CHANGE)
    second = client.get("/api/map").json()
    new = next(one for one in second["classes"] if one["class"] == "new")
    assert new["taught"]
    assert second["samples"][0]["at"] == first["samples"][0]["at"]  # nothing else moves
    at = {letter: np.mean([one["at"]["space"] for one in first["samples"] if one["class"] == letter], axis=0)
          for letter in LETTERS}  # fmt: skip
    near = sorted(LETTERS, key=lambda letter: np.linalg.norm(at[letter] - new["at"]["space"]))
    assert "é" in near[:5]


def test_a_corrected_class_moves_on_the_map_to_the_sample_that_it_was_corrected_by(serving, samples, quick_layout):
    client = serving(samples=samples)

    def place(name):
        found = client.get("/api/map").json()
        at = {one["class"]: one["at"]["space"] for one in found["classes"]}
        new = {one["id"]: one["at"]["space"] for one in found["samples"] if one["in_training"] == "no"}
        return at[name], new

    before, positions = place(UNSEEN[0])

    def distance(number, position):
        return np.linalg.norm(np.subtract(positions[number], position))

    far = max(positions, key=lambda number: distance(number, before))
    body = {"sample": far, "class": UNSEEN[0]}
    done = client.post("/api/corrections", data=body, headers=CHANGE)
    assert done.status_code == 201
    assert distance(far, place(UNSEEN[0])[0]) < distance(far, before)
    client.post("/api/corrections/undo", json=done.json()["undo"], headers=CHANGE)
    assert place(UNSEEN[0])[0] == before


def test_a_method_without_a_space_of_its_own_gets_a_map_too(samples, quick_layout, letters):
    rows = np.array([label not in UNSEEN for label in samples.labels])
    model = ESZSL().fit(samples.features[rows], np.array(samples.labels)[rows], letters.descriptions)
    found = landscape.EmbeddingMap(samples).of(model, "").model_dump(by_alias=True)
    assert [space["name"] for space in found["spaces"]] == ["features"]
    assert len(found["classes"]) == len(LETTERS)


def test_before_and_after_stand_side_by_side_for_a_transductive_model(samples, quick_layout, letters):
    from firstsight.methods import TransductiveKernelPrototypes

    rows = np.array([label not in UNSEEN for label in samples.labels])
    X, y = samples.features[rows], np.array(samples.labels)[rows]
    model = TransductiveKernelPrototypes(search=False, refinement=0)
    model.fit(X, y, letters.descriptions, X_unlabeled=samples.features)
    found = landscape.EmbeddingMap(samples, letters.model).of(model, "").model_dump(by_alias=True)
    assert [space["name"] for space in found["spaces"]] == ["before", "after"]
    assert all(set(one["at"]) == {"before", "after"} for one in found["classes"])


def test_what_is_measured_is_what_the_evaluation_measures(serving, samples, letters):
    trained = np.array(letters.predict(samples.features).in_training) == "labelled"
    new = int(np.flatnonzero(~trained)[0])
    wrong = next(one for one in samples.labels if one != letters.model.predict(samples.features[[new]])[0])
    labels = [wrong if row == new else label for row, label in enumerate(samples.labels)]
    samples = dataclasses.replace(samples, labels=labels)  # one that is sure to be named otherwise
    client = serving(samples=samples)
    found = client.get("/api/measure").json()
    truth = np.array(samples.labels)[~trained]
    unseen = np.isin(truth, list(UNSEEN))
    named = letters.model.predict(samples.features[~trained])
    assert found["figures"]["ts"] == pytest.approx(mean_class_accuracy(truth[unseen], named[unseen]))
    assert found["figures"]["tr"] == pytest.approx(mean_class_accuracy(truth[~unseen], named[~unseen]))
    curve = found["trade_off"]
    assert curve["constants"][curve["now"]] == 0
    assert curve["ts"][curve["now"]] == pytest.approx(found["figures"]["ts"])
    assert curve["ts"] == sorted(curve["ts"])
    assert {one["class"] for one in found["per_class"]} == set(truth)
    for one in found["per_class"]:
        others = Counter(named[(truth == one["class"]) & (named != truth)].tolist())
        assert one["accuracy"] == pytest.approx(np.mean(named[truth == one["class"]] == one["class"]))
        assert others[one["taken_for"]] == max(others.values(), default=0)
        assert (one["taken_for"] is None) == (not others)
    assert any(one["taken_for"] for one in found["per_class"] if one["class"] == wrong)


def test_training_samples_are_told_and_not_measured_on(serving, samples, letters):
    client = serving(samples=samples)
    expected = letters.predict(samples.features).in_training
    found, listed = client.get("/api/measure").json(), client.get("/api/samples?limit=2000").json()["samples"]
    assert [one["in_training"] for one in listed] == list(expected)
    counts = found["training"]
    assert (counts["labelled"], counts["no"]) == (expected.count("labelled"), expected.count("no"))
    assert 0 < counts["labelled"] < len(samples)
    assert found["samples"] == counts["no"] == sum(one["rows"] for one in found["per_class"])
    named = letters.model.predict(samples.features)
    right = sum(n == label and e == "labelled" for n, label, e in zip(named, samples.labels, expected, strict=True))
    assert counts["labelled_right"] == right
    assert counts["recognised_by"] == "features"


def test_nothing_is_measured_on_training_samples_alone(serving, samples, letters):
    trained = [row for row, told in enumerate(letters.predict(samples.features).in_training) if told == "labelled"]
    own = SampleImages(samples.features[trained], [samples.labels[row] for row in trained])
    found = serving(samples=own).get("/api/measure").json()
    assert found["samples"] == 0
    assert set(found["figures"].values()) == {None}
    assert found["per_class"] == []
    assert found["training"]["labelled"] == len(trained)


def test_a_picture_that_was_uploaded_is_recognised_as_a_training_image(serving, letters, png):
    model = copy.copy(letters.model)
    digest = hashlib.sha256(png("é")).digest()
    remember_samples(model, labelled=(None, np.frombuffer(digest[:8], dtype="<u8")))
    own = Recognizer(model, letters.provenance)
    files = [("pictures", ("a.png", png("é"))), ("pictures", ("b.png", png("é", 2)))]
    answers = serving(own).post("/api/predict", files=files, headers=CHANGE).json()["answers"]
    assert [one["in_training"] for one in answers] == ["labelled", "no"]


def test_the_report_is_made_when_it_is_asked_for(serving, tmp_path, monkeypatch):
    begin = threading.Event()

    def report(records, out):
        assert begin.wait(300)
        (out / "tables").mkdir(parents=True)
        (out / "index.html").write_text(f"<!doctype html>{records}")
        (out / "tables" / "t1.csv").write_text("a,b")
        return out / "index.html"

    monkeypatch.setattr("firstsight.reporting.report", report)
    client = serving(results="records")
    assert client.get("/report/index.html").status_code == 503
    begin.set()
    until = time.monotonic() + 300
    while (state := client.get("/api/report").json())["state"] == "making" and time.monotonic() < until:
        time.sleep(0.1)
    assert state["state"] == "ready"
    page = client.get(state["url"])
    assert page.text == "<!doctype html>records"
    assert client.get("/report/tables/t1.csv").headers["content-type"].startswith("text/csv")
    assert "'unsafe-inline'" in page.headers["content-security-policy"]
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert client.get("/report/../../etc/passwd").status_code == 404


def test_requests_pictures_and_changes_are_counted(client, png):
    client.post("/api/predict", files=[("pictures", ("a.png", png("é"))), ("pictures", ("b", b"?"))])
    client.post("/api/classes/remove", json={"names": ["é"]}, headers=CHANGE)
    client.get("/no/such/path")
    text = client.get("/metrics").text
    assert 'firstsight_requests_total{method="POST",route="/api/predict",status="200"} 1.0' in text
    assert "firstsight_pictures_total 1.0" in text
    assert "firstsight_unreadable_pictures_total 1.0" in text
    assert 'firstsight_class_changes_total{what="removed"} 1.0' in text
    assert "firstsight_classes 19.0" in text
    assert 'route="other"' in text
    assert "/no/such/path" not in text


def test_the_page_of_the_api_tells_every_route(steady):
    document = steady.get("/openapi.json").json()
    text = steady.get("/docs").text
    assert len(document["paths"]) >= 15
    for path in document["paths"]:
        assert path in text
    assert "supporting" not in text
    assert "none of these" in text


def test_readiness_and_the_log_say_in_one_sentence_that_the_backbone_is_missing(serving, letters, caplog):
    from firstsight.persistence.model_schema import BackboneUsed, Provenance
    from firstsight.recognition import Recognizer

    gone = Provenance(backbone=BackboneUsed(name="nobody/nothing", fingerprint="0", path=None))
    client = serving(Recognizer(letters.model, gone, backbone="/nowhere/at/all"))
    until = time.monotonic() + 300
    while (found := client.get("/ready").json())["error"].startswith("The model is being") and time.monotonic() < until:
        time.sleep(0.02)
    assert "backbone 'nobody/nothing' cannot be loaded" in found["error"]
    assert "--backbone FOLDER" in found["error"]
    assert "/nowhere" not in found["error"]  # anybody may ask, so paths are for the log alone
    (told,) = [record for record in caplog.records if record.name == "firstsight"]
    assert "There is no folder /nowhere/at/all" in told.getMessage()
    assert told.exc_info is None
    assert client.get("/health").status_code == 200


def test_readiness_hides_a_bug_and_the_log_shows_it(serving, monkeypatch, caplog):
    def broken(self):
        raise RuntimeError("secret detail")

    monkeypatch.setattr("firstsight.serving.batching.RecognitionQueue.warm_up", broken)
    client = serving()
    until = time.monotonic() + 30
    while (found := client.get("/ready").json())["error"].startswith("The model is being") and time.monotonic() < until:
        time.sleep(0.02)
    assert found["error"] == "The model cannot be used; the server's log says why."
    assert any(record.exc_info for record in caplog.records)


def test_a_sample_whose_picture_is_gone_or_none_any_more_is_told(serving, samples, tmp_path):
    place = tmp_path / "a.png"
    place.write_bytes(b"no picture")
    odd = dataclasses.replace(samples, images=[place, tmp_path / "gone.png", *samples.images[2:]])
    client = serving(samples=odd)
    for number in (0, 1):
        answer = client.get(f"/api/samples/{number}.png")
        assert (answer.status_code, answer.json()["error"]) == (
            404,
            "The picture of this sample cannot be read any more.",
        )
