"""Corrections: the model learns at once what a picture shows; undone, bounded, kept, and lost by nobody."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from PIL import Image

from firstsight.methods import ESZSL
from firstsight.persistence import model_folder
from firstsight.persistence.added_samples import add_samples
from firstsight.recognition import Recognizer
from serving.small_server import CHANGE, LETTERS, UNSEEN, as_png, log_of


def correct(client, content, label, **more):
    return client.post("/api/corrections", files={"picture": ("x.png", content)}, data={"class": label, **more},
                       headers=CHANGE)  # fmt: skip


def undo(client, corrected):
    return client.post("/api/corrections/undo", json=corrected.json()["undo"], headers=CHANGE)


def entry(client, content):
    answer = client.post("/api/predict", files={"pictures": ("x.png", content)}, data={"reject_far": "false"}).json()
    return answer["answers"][0]


def best(client, content):
    return entry(client, content)["top"][0]["class"]


@pytest.fixture
def others():
    """`others(n)` → n files of noise, each another picture."""
    random = np.random.default_rng(0)

    def make(count):
        return [as_png(Image.fromarray(random.integers(0, 255, (24, 24), dtype=np.uint8))) for _ in range(count)]

    return make


@pytest.mark.parametrize("durable", [True, False])
def test_the_next_answer_changes_and_is_undone(serving, model, letters, others, durable):
    client = serving(None if durable else Recognizer(letters.model, letters.provenance))
    (noise,) = others(1)
    before, first = entry(client, noise), client.get("/api/classes").json()["revision"]
    wanted = next(label for label in UNSEEN if label != before["top"][0]["class"])
    done = correct(client, noise, wanted)
    assert done.status_code == 201
    found = done.json()
    assert (found["class"], found["before"], found["added"], found["durable"]) == (wanted, None, 1, durable)
    assert found["revision"] == client.get("/api/classes").json()["revision"] != first
    after = entry(client, noise)
    assert (after["top"][0]["class"], after["in_training"]) == (wanted, "labelled")
    if durable:
        assert list(log_of(model).values()) == [wanted]
    # One picture outweighs a description, not the pictures of a class that has some.
    other = next(label for label in UNSEEN if label not in (wanted, before["top"][0]["class"]))
    second = correct(client, noise, other)
    assert (second.json()["before"], second.json()["added"]) == (wanted, 2)
    assert best(client, noise) == other
    assert undo(client, second).json()["class"] == wanted
    assert best(client, noise) == wanted
    undone = undo(client, done).json()
    assert (undone["class"], undone["before"], undone["added"]) == (None, wanted, 0)
    assert entry(client, noise) == before
    assert undo(client, done).status_code == 422
    text = client.get("/metrics").text
    assert 'firstsight_corrections_total{what="learned"} 2.0' in text
    assert 'firstsight_corrections_total{what="undone"} 2.0' in text


def test_a_correction_that_is_sent_again_changes_nothing(client, model, others):
    (noise,) = others(1)
    first, second = correct(client, noise, "ê"), correct(client, noise, "ê")
    assert second.json() == {**first.json(), "undo": None}
    assert len(log_of(model)) == 1


def test_a_sample_is_corrected_by_its_number(serving, samples, model):
    client = serving(samples=samples)
    number = samples.labels.index("ê")
    before = client.get("/api/measure").json()["training"]["labelled"]
    done = client.post("/api/corrections", data={"sample": number, "class": "é"}, headers=CHANGE)
    assert done.status_code == 201
    found = client.get("/api/samples", params={"limit": 2000}).json()["samples"]
    assert [one["in_training"] for one in found if one["id"] == number] == ["labelled"]
    assert client.get("/api/measure").json()["training"]["labelled"] == before + 1
    undo(client, done)
    assert client.get("/api/measure").json()["training"]["labelled"] == before


def test_what_cannot_be_learned_is_one_sentence_and_changes_nothing(serving, samples, model, png, others, letters):
    client, (noise,) = serving(samples=samples, upload_bytes=20_000), others(1)
    before = client.get("/api/classes").json()

    def refused(status, words, **request):
        answer = client.post("/api/corrections", headers=CHANGE, **request)
        assert (answer.status_code, list(answer.json())) == (status, ["error"])
        assert words in answer.json()["error"]

    picture = {"picture": ("x.png", noise)}
    refused(404, "did you mean 'é'", files=picture, data={"class": "É"})
    refused(422, "class", files=picture)
    refused(422, "Send a picture", data={"class": "é"})
    refused(422, "not both", files=picture, data={"class": "é", "sample": "0"})
    refused(404, "no sample of that number", data={"class": "é", "sample": "99999"})
    refused(422, "sample", data={"class": "é", "sample": "-1"})
    refused(422, "could be read", files={"picture": ("x.png", b"no picture")}, data={"class": "é"})
    refused(413, "larger", files={"picture": ("x.png", bytes(30_000))}, data={"class": "é"})
    for change in ("", "1", "1-0123456789abcdef", "x" * 101):
        answer = client.post("/api/corrections/undo", json={"change": change}, headers=CHANGE)
        assert answer.status_code == 422
    assert client.post("/api/corrections", files=picture, data={"class": "é"}).status_code == 403  # without the header
    assert client.get("/api/classes").json() == before
    assert log_of(model) == {}
    rows = np.random.default_rng(0).random((4, letters.model.n_features_in_), dtype=np.float32)
    other = serving(Recognizer(ESZSL().fit(rows, list("éàéà"), letters.descriptions), letters.provenance))
    answer = correct(other, noise, "é")
    assert answer.status_code == 422
    assert "ESZSL cannot learn from more samples" in answer.json()["error"]
    assert not other.get("/api/model").json()["can"]["correct"]
    assert client.get("/api/model").json()["can"]["correct"]


@pytest.mark.parametrize("durable", [True, False])
def test_corrections_end_at_the_bound_and_go_on_after_an_undo(serving, letters, others, durable):
    client = serving(None if durable else Recognizer(letters.model, letters.provenance), max_added=2)
    a, b, c = others(3)
    first = correct(client, a, "é")
    assert correct(client, a, "è").status_code == 201  # the label that was replaced is kept, for its undo
    for content in (b, c):
        refused = correct(client, content, "é")
        assert refused.status_code == 422
        assert "--max-added" in refused.json()["error"]
    assert client.get("/api/model").json()["revision"]
    undo(client, first)
    assert correct(client, b, "é").status_code == 201


@pytest.mark.parametrize("durable", [True, False])
def test_people_who_correct_and_teach_at_once_lose_nothing(serving, model, letters, others, durable):
    """Two applications over one folder, as two workers are, or over one recognizer; each has two people."""
    recognizer = Recognizer(letters.model, letters.provenance)
    clients = [serving(None if durable else recognizer) for _ in range(2)]
    noise, wanted, failures = others(16), {}, []

    def person(who):
        client = clients[who % 2]
        for number in range(4):
            label = LETTERS[(5 * who + number) % len(LETTERS)]
            done = correct(client, noise[4 * who + number], label)
            body = {"name": f"{who} {number}", "rest": 0.5}
            taught = client.post("/api/classes", json=body, headers=CHANGE)
            failures.extend(answer.text for answer in (done, taught) if answer.status_code != 201)
            if number == 3:
                failures.extend(answer.text for answer in [undo(client, done)] if answer.status_code != 200)
            else:
                wanted[noise[4 * who + number]] = label

    people = [threading.Thread(target=person, args=(who,)) for who in range(4)]
    for one in people:
        one.start()
    for one in people:
        one.join()
    assert not failures
    found = log_of(model) if durable else log_of(recognizer.model)
    assert sorted(found.values()) == sorted(wanted.values())
    for client in clients:
        assert len(client.get("/api/classes").json()["classes"]) == len(LETTERS) + 16
        assert {entry(client, content)["in_training"] for content in wanted} == {"labelled"}


def test_a_correction_reads_the_folder_only_if_another_process_has_changed_it(client, model, others, monkeypatch):
    reads = []
    original = model_folder._read
    monkeypatch.setattr(model_folder, "_read", lambda *given: reads.append(given) or original(*given))
    a, b, c = others(3)
    for content in (a, b):
        assert correct(client, content, "é").status_code == 201
        entry(client, content)
    assert reads == []
    with Recognizer.changing(model) as other:
        other.add_images(np.ones((1, other.model.n_features_in_), dtype=np.float32), "è")
    del reads[:]
    assert correct(client, c, "é").status_code == 201
    entry(client, c)
    assert len(reads) == 1
    assert sorted(log_of(model).values()) == ["è", "é", "é", "é"]


def test_a_picture_that_was_recognised_is_not_encoded_again(serving, others, png):
    client = serving(remember=2)
    recognizer = client.service.served.recognizer
    first, second, third = others(3)
    answers = [entry(client, content) for content in (first, second)]
    encoder, shapes = recognizer.backbone.encoder, []
    original = encoder._encode_batch
    encoder._encode_batch = lambda pixels: shapes.append(len(pixels)) or original(pixels)
    assert [entry(client, content) for content in (first, second)] == answers
    assert correct(client, second, "é").status_code == 201
    assert shapes == []
    entry(client, third)  # only so many are remembered: the first one has to go
    entry(client, first)
    assert shapes == [1, 1]


def test_a_full_disk_changes_nothing(client, model, others, monkeypatch):
    (noise,) = others(1)
    before = entry(client, noise)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(model_folder, "save_file", full)
        answer = correct(client, noise, "é")
        assert answer.status_code == 503
        assert str(model.parent) not in answer.text
        assert entry(client, noise) == before
    assert correct(client, noise, "é").status_code == 201


def test_what_a_command_has_added_is_undone_by_its_name(client, model, letters):
    with Recognizer.changing(model) as other:
        rows = np.eye(3, other.model.n_features_in_, dtype=np.float32)
        added = other.add_images(rows, ["é", "è", "é"])
    answer = client.post("/api/corrections/undo", json={"change": added.change}, headers=CHANGE)
    assert answer.status_code == 200
    assert log_of(model) == {}
    assert add_samples(letters.model, rows, ["é"] * 3, np.arange(1, 4, dtype=np.uint64))[1].change != added.change
