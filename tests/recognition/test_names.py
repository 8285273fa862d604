"""Models made of class names alone, with a tiny vision-language model made on the spot."""

from __future__ import annotations

import shutil

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import firstsight
from firstsight.data.feature_files import FeatureFile
from firstsight.encoders.descriptions import TextEncoder
from firstsight.encoders.embedding import embed
from firstsight.errors import BadInput
from firstsight.methods import Blend, Cosine
from firstsight.recognition import Recognizer, learn

NAMES = ["red fox", "wolf", "owl"]


@pytest.fixture(scope="module")
def photos():
    random = np.random.default_rng(3)
    return [random.integers(0, 256, size=(40, 48, 3), dtype=np.uint8) for _ in range(6)]


def by_transformers(folder, photos, texts):
    """Cosines (n, k) of images and of the mean direction of each class's texts, without a line of firstsight."""
    torch, t = pytest.importorskip("torch"), pytest.importorskip("transformers")
    model, tokenizer = t.AutoModel.from_pretrained(folder).eval(), t.AutoTokenizer.from_pretrained(folder)
    processor = t.AutoImageProcessor.from_pretrained(folder, backend="pil")

    def unit(output):
        return torch.nn.functional.normalize(getattr(output, "pooler_output", output), dim=-1)

    # SigLIP was trained on texts that are filled up.
    padding = {"padding": "max_length", "max_length": 16} if "siglip" in folder.name else {"padding": True}
    with torch.no_grad():
        pixels = processor([Image.fromarray(photo) for photo in photos], return_tensors="pt")["pixel_values"]
        images = unit(model.get_image_features(pixel_values=pixels))
        columns = []
        for several in texts:
            tokens = tokenizer(several, return_tensors="pt", **padding)
            columns.append(unit(unit(model.get_text_features(**tokens)).mean(dim=0)))
    return np.stack([(images @ column).numpy() for column in columns], axis=1)


@pytest.mark.parametrize("kind", ["clip", "siglip"])
def test_names_are_enough_and_the_answer_is_that_of_the_vision_language_model(
    make_dual_encoder, photos, kind, tmp_path
):
    folder = make_dual_encoder(kind)
    made = learn(classes=NAMES, backbone=folder, out=tmp_path / "model")
    assert isinstance(made.model, Cosine)
    expected = by_transformers(folder, photos, [[f"a photo of a {name}."] for name in NAMES])
    for model in (made, Recognizer.load(tmp_path / "model")):
        answers = model.predict(photos, top=3)
        rank = np.argsort(-expected, axis=1)
        assert answers.best == [NAMES[row[0]] for row in rank]
        features = model.backbone(photos)[0]
        np.testing.assert_allclose(model.model.decision_function(features), expected, atol=1e-5)
    used = Recognizer.load(tmp_path / "model").provenance
    assert (used.backbone.name, used.text_encoder.name) == (folder.name, folder.name)
    assert used.text_encoder.prompts == ["a photo of a {}."]
    assert used.pictures.labelled == 0
    assert not hasattr(made.model, "calibration_")


def test_descriptions_that_its_text_encoder_made_before_give_the_same_model(dual_encoder, photos, tmp_path):
    firstsight.describe(NAMES, encoder=dual_encoder, out=tmp_path / "descriptions.csv")
    made = learn(classes=tmp_path / "descriptions.csv", backbone=dual_encoder)
    expected = learn(classes=NAMES, backbone=dual_encoder)
    X = made.backbone(photos)[0]
    np.testing.assert_array_equal(made.model.decision_function(X), expected.model.decision_function(X))
    made.add_classes(["horse"])
    assert made.provenance.text_encoder.name == dual_encoder.name


def test_several_prompts_are_an_ensemble(dual_encoder, photos):
    prompts = ["a photo of a {}.", "a drawing of a {}."]
    made = learn(classes=NAMES, backbone=dual_encoder, prompt=prompts)
    expected = by_transformers(dual_encoder, photos, [[p.replace("{}", name) for p in prompts] for name in NAMES])
    found = made.model.decision_function(made.backbone(photos)[0])
    np.testing.assert_allclose(found, expected, atol=1e-5)
    one = learn(classes=NAMES, backbone=dual_encoder, prompt=prompts[0])
    assert np.abs(found - one.model.decision_function(made.backbone(photos)[0])).max() > 0.001
    assert made.provenance.text_encoder.prompts == prompts


def test_several_texts_of_a_class_are_an_ensemble(dual_encoder, photos, tmp_path):
    (tmp_path / "texts.csv").write_text("class,text\nzebra,a striped horse\nowl,a grey bird\nzebra,a horse\n")
    made = learn(classes=tmp_path / "texts.csv", backbone=dual_encoder)
    expected = by_transformers(dual_encoder, photos, [["a striped horse", "a horse"], ["a grey bird"]])
    assert made.model.classes_.tolist() == ["zebra", "owl"]
    np.testing.assert_allclose(made.model.decision_function(made.backbone(photos)[0]), expected, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(made.model.descriptions_, axis=1), 1, atol=1e-5)


def test_classes_are_added_by_name_or_sentence_as_the_others_were(dual_encoder, photos, tmp_path):
    prompt = "a drawing of a {}."
    learn(classes=NAMES, backbone=dual_encoder, prompt=prompt, out=tmp_path / "model")
    zebra = pd.DataFrame({"text": ["a striped horse"]}, index=["zebra"])
    with Recognizer.changing(tmp_path / "model") as model:
        model.add_classes(["horse"]).add_classes(zebra)
    model = Recognizer.load(tmp_path / "model")
    texts = [*([prompt.replace("{}", name)] for name in [*NAMES, "horse"]), ["a striped horse"]]
    expected = by_transformers(dual_encoder, photos, texts)
    np.testing.assert_allclose(model.model.decision_function(model.backbone(photos)[0]), expected, atol=1e-5)


def test_candidates_may_be_a_table_of_names_or_texts(dual_encoder, photos, tmp_path):
    made = learn(classes=NAMES, backbone=dual_encoder)
    (tmp_path / "new.csv").write_text("class\nhorse\nbird\n")
    texts = pd.DataFrame({"text": ["a striped horse", "a grey bird"]}, index=["zebra", "owl"])
    for candidates, sentences in (
        (tmp_path / "new.csv", {"horse": "a photo of a horse.", "bird": "a photo of a bird."}),
        (texts, {"zebra": "a striped horse", "owl": "a grey bird"}),
    ):
        expected = by_transformers(dual_encoder, photos, [[sentence] for sentence in sentences.values()])
        best = [list(sentences)[column] for column in expected.argmax(axis=1)]
        assert made.predict(photos, classes=candidates).best == best
    assert made.model.classes_.tolist() == NAMES


def test_the_text_encoder_that_adds_a_class_must_be_that_of_the_others(dual_encoder, make_dual_encoder, tmp_path):
    moved = shutil.copytree(dual_encoder, tmp_path / "elsewhere")
    made = learn(classes=NAMES, backbone=shutil.copytree(dual_encoder, tmp_path / "here"))
    shutil.rmtree(tmp_path / "here")
    with pytest.raises(BadInput, match=r"text encoder 'here'.*--text-encoder FOLDER"):
        made.add_classes(["horse"])
    made.add_classes(["horse"], text_encoder=moved)  # its name is another one, its content the same
    assert "horse" in made.model.classes_
    with pytest.raises(BadInput, match=r"This is the text encoder tiny-clip.*use the same one"):
        made.add_classes(["bird"], text_encoder=make_dual_encoder(seed=1))


def test_a_model_of_attributes_takes_no_words():
    table = pd.DataFrame(np.eye(3), index=NAMES, columns=["red", "grey", "striped"])
    model = Cosine().fit(np.eye(3), NAMES, table)
    with pytest.raises(BadInput, match="described by attributes"):
        Recognizer(model).add_classes(["horse"])


def test_names_describe_the_classes_of_labelled_images_too(dual_encoder, photos, tmp_path):
    for number, photo in enumerate(photos):
        folder = tmp_path / "images" / NAMES[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(photo).save(folder / f"{number}.png")
    made = learn(tmp_path / "images", NAMES, backbone=dual_encoder, method="eszsl")
    assert sorted(made.model.seen_classes_) == ["red fox", "wolf"]
    assert made.provenance.text_encoder.fingerprint == TextEncoder(dual_encoder).fingerprint
    described = firstsight.describe(NAMES, encoder=dual_encoder)
    np.testing.assert_array_equal(made.model.descriptions_, described.to_numpy(np.float32))
    features = embed(tmp_path / "images", backbone=dual_encoder)
    assert learn(features, NAMES, backbone=dual_encoder, method="cosine").model.shared_space
    with pytest.raises(BadInput, match="samples of the class 'wolf', but the table of classes has no such row"):
        learn(tmp_path / "images", ["red fox", "owl"], backbone=dual_encoder)
    shutil.rmtree(tmp_path / "images" / "wolf")
    with pytest.raises(BadInput, match="samples of 1 class; learning needs at least 2"):
        learn(tmp_path / "images", NAMES, backbone=dual_encoder)


def test_descriptions_of_another_text_encoder_are_noticed_before_the_images_are_read(dual_encoder, tmp_path, caplog):
    vectors = np.random.default_rng(0).normal(size=(3, 12))
    foreign = pd.DataFrame(vectors, index=NAMES, columns=[f"minilm:{number}" for number in range(12)])
    features = FeatureFile(
        vectors, ["a", "b", "c"], NAMES, backbone={"name": "tiny-clip", "fingerprint": "0", "dim": 12}
    )
    with pytest.raises(
        BadInput, match=r"encoded by tiny-clip and the descriptions were made by minilm.*--encoder tiny-clip"
    ):
        learn(features, foreign, method="cosine")
    (tmp_path / "owl").mkdir()
    (tmp_path / "wolf").mkdir()
    for label in ("owl", "wolf"):
        (tmp_path / label / "damaged.png").write_bytes(b"not a picture")
    for images in (tmp_path, None):
        with pytest.raises(BadInput, match="descriptions were made by minilm"):
            learn(images, foreign, method=Cosine(), backbone=dual_encoder)
    assert not caplog.records
    with pytest.raises(BadInput, match="could be read"):
        learn(tmp_path, foreign, method="eszsl", backbone=dual_encoder)
    (warning,) = [record.getMessage() for record in caplog.records if "one space" in record.getMessage()]
    assert f"--encoder {dual_encoder}" in warning
    assert learn(features, foreign, method="eszsl").model.n_features_in_ == 12  # learns how the two go together


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"classes": ["owl"]}, "names of 1 class; expected at least 2 to tell apart"),
        ({"classes": []}, "names of 0 classes"),
        ({"classes": ["owl", " "]}, "a text that is not empty; got ' '"),
        ({"classes": ["owl", None]}, "a text that is not empty; got None"),
        ({"classes": ["owl", "wolf", "owl"]}, "describes the class 'owl' more than once"),
        ({"classes": None}, "`classes` is missing"),
        ({"classes": NAMES, "method": "eszsl"}, "eszsl learns from labelled images, and none were given.*cosine"),
        ({"classes": NAMES, "unlabeled": "."}, "`unlabeled` needs labelled images"),
        ({"classes": NAMES, "unseen": ["owl"]}, "`unseen` needs labelled images"),
        ({"classes": NAMES, "prompt": "a photo"}, "must hold {} where the name belongs"),
        ({"classes": NAMES, "backbone": "firstsight-letters"}, "no text tower.*vision-language model"),
        (
            {"classes": pd.DataFrame(np.eye(3, 5), index=NAMES)},
            "gives 12 numbers per image, and the descriptions have 5",
        ),
        ({"classes": pd.DataFrame(np.eye(3), index=NAMES), "prompt": "a {}"}, "--prompt is for bare names"),
        (
            {"classes": pd.DataFrame(np.eye(3), index=NAMES), "backbone": "microsoft/resnet-101"},
            "vision-language model such as",
        ),
    ],
)
def test_names_without_images_that_make_no_model_are_rejected(dual_encoder, given, said):
    with pytest.raises(BadInput, match=said):
        learn(**{"backbone": dual_encoder, **given})


def test_a_vision_model_has_no_text_tower(backbone):
    with pytest.raises(BadInput, match="the backbone tiny has no text tower"):
        learn(classes=NAMES, backbone=backbone)
    foreign = pd.DataFrame(np.eye(3), index=NAMES, columns=[f"minilm:{number}" for number in range(3)])
    with pytest.raises(BadInput, match=r"made by minilm; give a vision-language model such as .* as the backbone"):
        learn(classes=foreign, backbone=backbone)


def test_labelled_images_are_added_later_and_kept_when_names_change(dual_encoder, photos, tmp_path):
    for number in (0, 1):
        Image.fromarray(photos[number]).save(tmp_path / f"{number}.png")
    learn(classes=NAMES, backbone=dual_encoder, out=tmp_path / "model")
    assert Recognizer.load(tmp_path / "model").predict(tmp_path / "0.png").in_training == ["no"]
    with Recognizer.changing(tmp_path / "model") as model:
        model.add_images([tmp_path / "0.png", tmp_path / "1.png"], ["wolf", "owl"])
    taught = Recognizer.load(tmp_path / "model")
    assert taught.predict(tmp_path / "0.png").in_training == ["labelled"]
    assert sorted(taught.model.seen_classes_) == ["owl", "wolf"]
    again = learn(classes=[*NAMES, "horse"], backbone=dual_encoder, out=tmp_path / "model")
    X = again.backbone(photos)[0]
    scores = again.model.decision_function(X, classes=NAMES)
    np.testing.assert_allclose(scores, taught.model.decision_function(X), atol=1e-5)
    assert sorted(again.model.seen_classes_) == ["owl", "wolf"]
    with pytest.raises(BadInput, match="of the class 'wolf', which the table of classes does not describe"):
        learn(classes=["owl", "horse"], backbone=dual_encoder, out=tmp_path / "model")


def test_a_model_of_names_is_learned_again_with_labelled_images(dual_encoder, photos, tmp_path, caplog):
    for number, photo in enumerate(photos):
        folder = tmp_path / ("more" if number == 5 else "images") / NAMES[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(photo).save(folder / f"{number}.png")
    learn(classes=NAMES, backbone=dual_encoder, out=tmp_path / "model")
    with Recognizer.changing(tmp_path / "model") as model:
        model.add_classes(["horse"])
        model.add_images(
            [tmp_path / "images" / "wolf" / "1.png", tmp_path / "more" / "wolf" / "5.png"], ["wolf", "horse"]
        )
    again = learn(tmp_path / "images", NAMES, backbone=dual_encoder, out=tmp_path / "model")
    assert "'horse' was added; 1 labelled sample added; 1 added sample now among the training images." in caplog.text
    assert isinstance(again.model, Blend)  # the default where images and names share a space
    assert sorted(again.model.seen_classes_) == ["horse", "red fox", "wolf"]
    assert len(again.model.added_samples_["codes"]) == 1  # the other one is among the images to learn from
