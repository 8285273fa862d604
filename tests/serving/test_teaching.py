"""Classes that people teach: by attributes, by a class that is alike, by a sentence; taken back; exported."""

from __future__ import annotations

import io
import threading

import numpy as np
import pandas as pd
import pytest

from firstsight.data import read_descriptions
from firstsight.encoders.descriptions import describe
from firstsight.recognition import Recognizer, learn
from firstsight.serving.served_model import grouped
from serving.small_server import CHANGE, LETTERS, teach, teach_at_once


def best(client, content):
    answer = client.post("/api/predict", files={"pictures": ("x.png", content)}, data={"reject_far": "false"}).json()
    return answer["answers"][0]["top"][0]["class"]


def forget(client, *names):
    return client.post("/api/classes/remove", json={"names": list(names)}, headers=CHANGE)


def test_a_taught_class_wins_at_once_and_is_in_the_folder_before_it_is_acknowledged(client, model, png):
    assert forget(client, "ê").status_code == 200
    assert best(client, png("ê")) != "ê"
    done = teach(client, "my ê", {"base e": 1, "mark circumflex": 1}, rest=0)
    assert done.status_code == 201
    assert done.json()["durable"]
    assert done.json()["done"] == [{"class": "my ê", "seen": False, "what": "added"}]
    assert "my ê" in Recognizer.load(model).classes["class"].tolist()
    assert best(client, png("ê")) == "my ê"
    assert done.json()["revision"] == client.get("/api/classes").json()["revision"]


def test_every_change_can_be_taken_back_to_the_last_bit(client, model):
    before = Recognizer.load(model).model
    steps = [
        teach(client, "new", {"base e": 1}, rest=0),
        teach(client, "new", {"base e": 0.5}, like="é", replace=True),
        forget(client, "é", "ê"),  # one that training saw, one that it did not
    ]
    assert [step.json()["done"][0]["what"] for step in steps] == ["added", "changed", "removed"]
    for step in reversed(steps):
        undone = client.post("/api/classes/undo", json=step.json()["undo"], headers=CHANGE)
        assert undone.status_code == 200
    after = Recognizer.load(model).model
    rows = np.random.default_rng(0).random((5, 512), dtype=np.float32)
    assert after.classes_.tolist() == before.classes_.tolist()
    assert (after.decision_function(rows) == before.decision_function(rows)).all()


def test_attributes_that_are_not_named_come_from_the_class_that_is_alike(client):
    teach(client, "e with dots", {"mark acute": 0, "mark diaeresis": 1}, like="é")
    own = client.get("/api/classes/description", params={"name": "e with dots"}).json()["attributes"]
    assert own == client.get("/api/classes/description", params={"name": "ë"}).json()["attributes"]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"name": "é", "rest": 0}, 409, "already"),
        ({"name": "x", "attributes": {"base e": 1}}, 422, "has no value"),
        ({"name": "x", "attributes": {"bas e": 1}, "rest": 0}, 404, "did you mean 'base e'"),
        ({"name": "x", "like": "zebra"}, 404, "Unknown class 'zebra'"),
        ({"name": "x", "rest": 1e30}, 422, "between"),
        ({"name": "x", "attributes": {"base e": 1e30}, "rest": 0}, 422, "between"),
        ({"name": "x", "text": "an e with a hat"}, 422, "attributes"),
        ({"name": " \t ", "rest": 0}, 422, "name"),
        ({"name": "a\x00b", "rest": 0}, 422, "name"),
        ({"name": "\u202etxt", "rest": 0}, 422, "name"),
        ({"name": "=1+1", "rest": 0}, 422, "formula"),
        ({"name": "None of these", "rest": 0}, 422, "where none fits"),
        ({"name": "x" * 201, "rest": 0}, 422, "name"),
        ({"name": "x", "rest": 0, "path": "/etc"}, 422, "path"),
        ({"rest": 0}, 422, "name"),
    ],
)
def test_what_cannot_be_taught_is_one_sentence_and_changes_nothing(steady, body, status, words):
    before = steady.get("/api/classes").json()
    answer = steady.post("/api/classes", json=body, headers=CHANGE)
    assert answer.status_code == status
    assert list(answer.json()) == ["error"]
    assert words in answer.json()["error"]
    assert steady.get("/api/classes").json() == before


@pytest.mark.parametrize("name", ["\\ud800", "\\udfff e"])
def test_half_a_character_is_refused(steady, name):
    body = f'{{"name": "{name}", "rest": 0}}'
    headers = {**CHANGE, "Content-Type": "application/json"}
    assert steady.post("/api/classes", content=body, headers=headers).status_code == 422


def test_a_name_is_text_whatever_it_looks_like(client):
    for name in ("<img src=x onerror=alert(1)>", "../../etc/passwd", "a/b", 'say "hi"', "NUL", "🦜"):
        assert teach(client, name, {"base e": 1}, rest=0).status_code == 201
        assert client.get("/api/classes/description", params={"name": name}).json()["class"] == name
    assert client.get("/api/classes").headers["content-type"] == "application/json"


def test_removing_what_is_not_there_or_everything_is_refused(steady):
    assert forget(steady, "zebra").status_code == 404
    everything = [one["class"] for one in steady.get("/api/classes").json()["classes"]]
    assert forget(steady, *everything).status_code == 422
    assert steady.post("/api/classes/undo", json={}, headers=CHANGE).status_code == 422
    wrong = {"restore": [{"class": "x", "description": [1.0]}]}
    assert steady.post("/api/classes/undo", json=wrong, headers=CHANGE).status_code == 422


@pytest.mark.parametrize("name", ["a\x1b[31m", "two\nlines", " ", "none of these", "\u202eback", "=1+1", "two  spaces"])
def test_taking_back_is_no_way_to_a_name_that_could_not_be_taught(steady, name):
    width = len(steady.get("/api/model").json()["attributes"])
    wrong = {"restore": [{"class": name, "description": [0.5] * width}]}
    assert steady.post("/api/classes/undo", json=wrong, headers=CHANGE).status_code == 422


def test_a_model_file_that_is_removed_is_told_without_its_place(client, model):
    (model / "model.json").unlink()
    answer = teach(client, "new", {"base e": 1}, rest=0)
    assert answer.status_code == 503
    assert str(model.parent) not in answer.text


def test_the_exported_table_teaches_another_model_the_same_classes(client, model, tmp_path):
    teach(client, 'comma, "quote"', {"base e": 1}, rest=0)
    text = client.get("/api/classes.csv")
    assert "attachment" in text.headers["content-disposition"]
    (tmp_path / "classes.csv").write_bytes(text.content)
    table = read_descriptions(tmp_path / "classes.csv")
    pd.testing.assert_frame_equal(table, Recognizer.load(model).descriptions.astype(np.float32), check_names=False)
    assert pd.read_csv(io.StringIO(text.text)).shape[0] == len(table)


@pytest.mark.parametrize("durable", [True, False])
def test_teaching_ends_at_the_bound_and_goes_on_after_a_removal(serving, letters, durable):
    client = serving(None if durable else Recognizer(letters.model, letters.provenance), max_classes=len(LETTERS) + 1)
    assert teach(client, "first", rest=0.5).status_code == 201
    refused = teach(client, "second", rest=0.5)
    assert refused.status_code == 422
    assert "--max-classes" in refused.json()["error"]
    assert len(client.get("/api/classes").json()["classes"]) == len(LETTERS) + 1
    forget(client, "é")
    assert teach(client, "second", rest=0.5).status_code == 201


def test_two_people_who_teach_at_once_lose_nothing(serving):
    """Two applications over one folder, as two workers are; each has two people."""
    clients = [serving(), serving()]
    failures = []

    def person(client, who):
        for number in range(4):
            answer = teach(client, f"{who} {number}", {"base e": 1}, rest=0)
            if answer.status_code != 201:
                failures.append(answer.text)

    people = [threading.Thread(target=person, args=(clients[n % 2], f"person {n}")) for n in range(4)]
    for one in people:
        one.start()
    for one in people:
        one.join()
    assert not failures
    wanted = {f"person {n} {number}" for n in range(4) for number in range(4)}
    for client in clients:
        assert wanted <= {one["class"] for one in client.get("/api/classes").json()["classes"]}


def test_a_model_in_memory_loses_no_class_when_several_people_teach_and_undo(serving, letters):
    """Each change starts from the model that the one before has left; a reader sees one model, not parts of two."""
    before = set(LETTERS)
    recognizer = Recognizer(letters.model, letters.provenance)
    kept, undone, statuses = teach_at_once(serving(recognizer), people=6, classes=9)
    assert set(statuses) <= {200, 201}
    assert len(kept) == 6 * 6
    assert len(undone) == 6 * 3
    assert set(recognizer.classes["class"]) == before | kept


def test_two_applications_of_one_recognizer_and_its_owner_lose_nothing(serving, letters):
    recognizer = Recognizer(letters.model, letters.provenance)
    clients = [serving(recognizer), serving(recognizer)]
    attributes = recognizer.descriptions.columns
    there = set()

    def owner():
        for number in range(8):
            recognizer.add_classes(pd.DataFrame(0.5, index=[f"owner {number}"], columns=attributes))
            there.add(f"owner {number}")

    def person(who):
        for number in range(8):
            assert teach(clients[who], f"person {who} {number}", rest=0.5).status_code == 201
            there.add(f"person {who} {number}")

    threads = [threading.Thread(target=owner), *(threading.Thread(target=person, args=(who,)) for who in range(2))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(there) == 24
    assert set(recognizer.classes["class"]) == set(LETTERS) | there


def test_what_another_process_changes_is_answered_with_at_once(client, model, png):
    with Recognizer.changing(model) as other:
        other.remove_classes(["é"])
    assert best(client, png("é")) != "é"
    assert client.get("/api/model").json()["classes"] == 19


def test_a_folder_that_vanishes_keeps_the_server_answering(client, model, png):
    model.rename(model.with_name("elsewhere"))
    assert best(client, png("é")) == "é"
    answer = teach(client, "new", {"base e": 1}, rest=0)
    assert answer.status_code == 503
    assert str(model.parent) not in answer.text


def test_a_model_in_memory_learns_too_but_not_for_ever(serving, letters):
    client = serving(Recognizer(letters.model, letters.provenance))
    done = teach(client, "new", {"base e": 1}, rest=0)
    assert done.status_code == 201
    assert not done.json()["durable"]
    assert "new" in [one["class"] for one in client.get("/api/classes").json()["classes"]]


def test_attributes_are_shown_in_groups(steady):
    found = steady.get("/api/model").json()["attributes"]
    assert {one["group"] for one in found} == {"base", "mark"}
    assert all(one["binary"] and one["high"] == 1 for one in found)
    assert grouped(["a", "b c"]) == [("", "a"), ("", "b c")]


@pytest.mark.slow
def test_a_class_is_taught_by_a_sentence(serving, shared, tmp_path, drawn):
    from firstsight import ESZSL

    encoder = shared / "backbones" / "all-minilm-l6-v2"
    names = ["cat", "dog", "violin", "piano"]
    table = describe(pd.DataFrame({"text": [f"a photo of a {name}" for name in names]}, index=names), encoder=encoder)
    rows = np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32)
    model = ESZSL().fit(rows, np.repeat(names, 10), table)
    client = serving(Recognizer(model), text_encoder=str(encoder))
    assert client.get("/api/model").json()["can"]["sentence"]
    done = teach(client, "guitar", text="a photo of a guitar, which has strings")
    assert done.status_code == 201
    assert teach(client, "flute", {"x": 1}, text="a flute").status_code == 422


def test_a_model_of_names_is_taught_by_a_name_or_a_sentence(serving, dual_encoder, tmp_path, png):
    made = learn(classes=["fox", "wolf"], backbone=dual_encoder)
    client = serving(made)
    assert client.get("/api/model").json()["can"]["sentence"]
    assert teach(client, "owl").status_code == 201
    assert teach(client, "zebra", text="a striped horse").status_code == 201
    assert best(client, png("ê")) in {"fox", "wolf", "owl", "zebra"}
    expected = describe(["fox", "wolf", "owl"], encoder=dual_encoder).to_numpy(np.float32)
    found = client.service.served.recognizer.model.descriptions_
    np.testing.assert_allclose(found[:3], expected, atol=1e-5)  # batches round differently


def test_a_model_of_another_backbone_takes_its_backbone_along(client, model, letters, png):
    from firstsight.persistence.model_schema import BackboneUsed, Provenance

    other = BackboneUsed(name="nobody/nothing", fingerprint="0" * 32, dim=512)
    Recognizer(letters.model, Provenance(backbone=other)).save(model)
    client.get("/api/classes")
    assert client.service.served.recognizer.backbone.known.fingerprint == "0" * 32
    letters.save(model)
    assert best(client, png("é")) == "é"
