"""Pictures in, answers out: what the Recognizer says, for one picture, for many, for odd ones."""

from __future__ import annotations

import errno
import io
import os
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from PIL import Image

from serving.small_server import CHANGE, UNSEEN, as_png, stroke


def ask(client, *files, **fields):
    return client.post("/api/predict", files=[("pictures", file) for file in files], data=fields)


def confirm(client, content, label):
    files = {"picture": ("../../x.png", content)}
    return client.post("/api/confirm", files=files, data={"class": label}, headers=CHANGE)


def test_the_server_answers_what_the_recognizer_answers(steady, letters, png):
    names = ["é", "ê", "ü"]
    found = ask(steady, *[(f"{n}.png", png(n)) for n in names], top="3").json()["answers"]
    pictures = [Image.open(io.BytesIO(png(name))).convert("RGB") for name in names]
    for answer, own in zip(found, letters.predict(pictures, 3, why=True).as_json(), strict=True):
        assert answer["class"] == own["class"]
        assert answer["confidence"] == pytest.approx(own["confidence"])
        assert [one["class"] for one in answer["top"]] == [one["class"] for one in own["top"]]
        assert answer["why"] == own["why"]
        assert answer["error"] is None
    assert [answer["file"] for answer in found] == ["é.png", "ê.png", "ü.png"]
    assert [one["seen"] for one in found[0]["top"]] == [one["class"] not in UNSEEN for one in found[0]["top"]]


def test_most_letters_that_training_never_saw_are_named_right(steady, png):
    truth = [letter for letter in UNSEEN for _ in range(4)]
    files = [("x.png", png(letter, number % 4)) for number, letter in enumerate(truth)]
    answers = ask(steady, *files, classes="unseen", why="false").json()["answers"]
    right = sum(answer["top"][0]["class"] == letter for answer, letter in zip(answers, truth, strict=True))
    assert right >= 12  # of 16; guessing gives 4


def test_what_is_no_picture_is_told_and_the_others_are_answered(steady, png):
    found = ask(steady, ("a.png", png("é")), ("b.png", b"no picture at all"), ("c.png", png("ä"))).json()["answers"]
    assert [one["error"] is None for one in found] == [True, False, True]
    assert found[1]["class"] is None
    assert found[1]["top"] == []
    assert "format" in found[1]["error"]


def test_a_request_without_a_readable_picture_is_one_sentence(steady):
    answer = ask(steady, ("b.png", b"nothing"))
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("None of the pictures could be read (b.png: ")


@pytest.mark.parametrize(
    ("field", "value"),
    [("top", "0"), ("top", "51"), ("classes", "mine"), ("reject_share", "2"), ("reject_share", "nan"), ("why", "so")],
)
def test_a_wrong_field_is_one_sentence(steady, png, field, value):
    answer = ask(steady, ("a.png", png("é")), **{field: value})
    assert answer.status_code == 422
    assert field in answer.json()["error"]


def test_pictures_come_as_files_and_no_address_is_fetched(steady):
    answer = steady.post("/api/predict", data={"pictures": "http://127.0.0.1:1/x.png"})
    assert answer.status_code == 422
    assert steady.post("/api/predict", json={"url": "file:///etc/passwd"}).status_code == 422


def test_a_name_is_shown_without_its_folders_and_control_characters(steady, png):
    found = ask(steady, ("../../etc/\x1b[31mpasswd", png("é"))).json()["answers"][0]
    assert "/" not in found["file"]
    assert "\x1b" not in found["file"]


def test_what_looks_like_nothing_known_is_none_of_these_unless_all_are_accepted(steady):
    noise = as_png(Image.effect_noise((64, 64), 120))
    found = ask(steady, ("n.png", noise)).json()["answers"][0]
    assert (found["class"], found["rejected"], found["confidence"]) == ("none of these", True, None)
    assert len(found["top"]) == 5
    assert ask(steady, ("n.png", noise), reject_far="false").json()["answers"][0]["class"] != "none of these"


def test_a_letter_is_found_wherever_and_however_large_it_is(steady, png):
    small = Image.open(io.BytesIO(png("é"))).convert("L")
    page = Image.new("L", (400, 300), int(small.getpixel((0, 0))))
    page.paste(small.resize((160, 160)), (220, 30))
    inverted = Image.eval(page, lambda value: 255 - value)
    found = ask(steady, ("a.png", as_png(page)), ("b.png", as_png(inverted)), why="false").json()["answers"]
    assert [one["top"][0]["class"] for one in found] == ["é", "é"]


def test_a_letter_drawn_by_hand_is_recognised(steady):
    i = [[(120, 100), (120, 200)], [(120, 60), (150, 30)]]  # í
    found = ask(steady, ("i.png", as_png(stroke(i))), reject_far="false").json()["answers"][0]
    assert "í" in [one["class"] for one in found["top"][:3]]


def test_embed_gives_the_features_that_the_backbone_gives(steady, letters, png):
    found = steady.post("/api/embed", files=[("pictures", ("a.png", png("é"))), ("pictures", ("b", b"?"))]).json()
    own = letters.backbone.encoder.encode_images([Image.open(io.BytesIO(png("é"))).convert("RGB")])[0]
    assert found["dim"] == 512
    assert found["rows"][0]["features"] == pytest.approx(own.tolist())
    assert found["rows"][1]["features"] is None
    assert found["rows"][1]["error"]


def test_too_many_pictures_and_too_large_ones_are_refused(serving, png):
    client = serving(pictures=2, upload_bytes=2048)
    assert ask(client, *[("a.png", png("é"))] * 3).status_code == 422
    large = ask(client, ("a.png", b"\x89PNG\r\n\x1a\n" + bytes(3000)))
    assert large.status_code == 413
    assert "larger than" in large.json()["error"]


def test_a_model_of_bare_features_says_so(serving, calibrated):
    from firstsight.recognition import Recognizer

    client = serving(Recognizer(calibrated))
    assert client.get("/ready").json() == {"ready": True, "error": None}
    assert not client.get("/api/model").json()["can"]["pictures"]
    answer = ask(client, ("a.png", b"x"))
    assert answer.status_code == 422
    assert "features" in answer.json()["error"]


def test_a_confirmed_picture_is_kept_where_learn_finds_it(serving, png, tmp_path):
    from firstsight.encoders import find_images

    client = serving(keep=str(tmp_path / "kept"))
    assert client.get("/api/model").json()["can"]["keep"]
    for label in ("é", "è", "é"):  # a person changes his mind, twice
        done = confirm(client, png("é"), label)
        assert done.status_code == 201
    confirm(client, png("ä"), "ä")
    assert done.json()["pictures"] == 1
    paths, classes = find_images(tmp_path / "kept")
    assert sorted(classes) == ["ä", "é"]
    assert sorted(path.read_bytes() for path in paths) == sorted([png("é"), png("ä")])
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {path.name for path in paths} | {"labels.csv"}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["kept", "model"]


def test_only_pictures_of_known_classes_are_kept_and_only_where_it_was_asked_for(serving, client, png, tmp_path):
    assert confirm(client, png("é"), "é").status_code == 403
    keeping = serving(keep=str(tmp_path / "kept"))
    assert confirm(keeping, png("é"), "../../../etc").status_code == 404
    assert confirm(keeping, b"no picture", "é").status_code == 422
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["labels.csv"]


def test_no_more_is_kept_than_there_is_room_for(serving, png, tmp_path):
    client = serving(keep=str(tmp_path / "kept"), keep_bytes=1024 + len(png("é")))
    assert confirm(client, png("é"), "é").status_code == 201
    pictures = [confirm(client, png(letter), letter) for letter in "äöüáàâ"]
    assert pictures[-1].status_code == 507
    assert "--max-kept" in pictures[-1].json()["error"]
    assert sum(path.stat().st_size for path in (tmp_path / "kept").iterdir()) <= 1024 + len(png("é")) + 100


def test_a_picture_may_be_the_body_and_gets_the_answer_of_a_form(steady, png):
    by_form = ask(steady, ("picture", png("é")), top="3", why="false").json()
    bare = steady.post("/api/predict/one?top=3&why=false", content=png("é"), headers={"Content-Type": "image/png"})
    assert bare.status_code == 200
    assert bare.json() == by_form
    assert 'route="/api/predict/one",status="200"' in steady.get("/metrics").text


@pytest.mark.parametrize(
    ("query", "content", "status"),
    [
        ("?top=0", None, 422),
        ("?tops=3", None, 422),
        ("?why=false&why=true&why=maybe", None, 422),
        ("", b"no picture", 422),
        ("", b"", 422),
        ("", b"x" * 3000, 413),
    ],
)
def test_a_body_that_cannot_be_right_is_refused_in_a_sentence(serving, png, query, content, status):
    client = serving(upload_bytes=2048)
    answer = client.post(f"/api/predict/one{query}", content=png("é") if content is None else content)
    assert answer.status_code == status
    assert answer.json()["error"].endswith(".")


def test_a_bug_is_a_500_without_details_and_its_traceback_reaches_the_log_of_the_server(serving, png, monkeypatch):
    from starlette.testclient import TestClient

    def broken(*_):
        raise ValueError("arrays of /a/private/folder")

    client = serving()
    monkeypatch.setattr(client.service.served.recognizer.model, "score_blocks", broken)
    bare = {"url": "/api/predict/one", "content": png("é")}
    for answer in (ask(client, ("a.png", png("é"))), client.post(**bare)):
        assert answer.status_code == 500
        assert answer.json() == {"error": "Something went wrong in the server; its log says what. This is a bug."}
    with pytest.raises(ValueError, match="private"):  # as the server that runs the application sees it
        TestClient(client.app, base_url="http://127.0.0.1").post(**bare)
    assert client.get("/api/predict/one").status_code == 405


def test_what_happened_to_the_table_of_kept_pictures_does_not_spoil_the_next_line(serving, png, tmp_path):
    client, table = serving(keep=str(tmp_path / "kept")), tmp_path / "kept" / "labels.csv"
    assert confirm(client, png("é"), "é").status_code == 201
    whole = table.read_bytes()
    table.write_bytes(whole + b"half of a li")  # of a process that was killed, or a full disk
    done = confirm(client, png("ä"), "ä")
    assert done.json()["pictures"] == 2
    assert table.read_bytes() == whole + f"{done.json()['kept']},ä\n".encode()
    table.write_bytes(whole + b"\xff\xfe,x\n" + b"x" * 200_000 + b"\n")  # nor what others have written into it
    assert confirm(client, png("ä"), "ä").status_code == 201
    table.unlink()
    os.mkfifo(table)
    assert confirm(client, png("ä"), "ä").status_code == 503


def test_a_full_disk_leaves_no_half_of_a_line(serving, png, tmp_path, monkeypatch):
    client, table = serving(keep=str(tmp_path / "kept")), tmp_path / "kept" / "labels.csv"
    whole = table.read_bytes()

    def fails(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("firstsight._io.files.os", SimpleNamespace(**{**vars(os), "fsync": fails}))
    assert confirm(client, png("é"), "é").status_code == 503
    assert table.read_bytes() == whole


def test_images_confirmed_at_the_same_time_all_keep_their_line_without_file_locks(tmp_path, monkeypatch):
    monkeypatch.setattr("firstsight._io.folders.lock", lambda *arguments, **options: None)
    from firstsight.serving.samples import ConfirmedImageStore

    store = ConfirmedImageStore(tmp_path)
    images = []
    for shade in range(24):
        file = io.BytesIO()
        Image.new("L", (4, 4), shade).save(file, format="PNG")
        images.append(file.getvalue())
    with ThreadPoolExecutor(8) as pool:
        names = {name for name, _ in pool.map(lambda image: store.keep(image, "kind"), images)}
    assert len((tmp_path / "labels.csv").read_text().splitlines()) == 1 + len(names) == 25
