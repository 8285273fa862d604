"""Names and sentences → vectors, with tiny text models made on the spot."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from firstsight.encoders import descriptions
from firstsight.encoders.descriptions import TextEncoder, readable
from firstsight.errors import BadInput

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "photo", "of", "ox", "okapi", "striped", "horse"]
DOUBLE = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
PADDING = {
    "strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None,
    "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]",
}  # fmt: skip


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """A sentence-transformers model: a tiny BERT and mean pooling."""
    torch = pytest.importorskip("torch")

    t = pytest.importorskip("transformers")
    pytest.importorskip("sentence_transformers")
    from sentence_transformers import SentenceTransformer, models

    folder = tmp_path_factory.mktemp("bert")
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    torch.manual_seed(0)
    config = t.BertConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    t.BertModel(config).save_pretrained(folder)
    t.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    word = models.Transformer(str(folder))
    whole = SentenceTransformer(modules=[word, models.Pooling(word.get_embedding_dimension())], device="cpu")
    whole.save(str(folder / "whole"))
    return folder / "whole"


@pytest.fixture(scope="module")
def clip(make_backbone, tmp_path_factory):
    t = pytest.importorskip("transformers")

    folder = shutil.copytree(make_backbone("clip"), tmp_path_factory.mktemp("words") / "clip")
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    t.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


def test_sentences_become_vectors_of_unit_length_that_follow_the_words(bert):
    encoder = TextEncoder(bert)
    vectors = encoder.encode(["a striped horse", "okapi", "a striped horse"])
    assert vectors.shape == (3, 16)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(vectors[0], vectors[2], atol=1e-6)
    assert np.abs(vectors[0] - vectors[1]).max() > 0.01
    assert encoder.prompt == "{}"


def test_clip_gives_its_projected_text_features(clip):
    torch = pytest.importorskip("torch")
    from transformers import AutoModel, AutoTokenizer

    encoder = TextEncoder(clip)
    found = encoder.encode(["a photo of a ox", "okapi"])
    model, tokens = AutoModel.from_pretrained(clip), AutoTokenizer.from_pretrained(clip)
    with torch.no_grad():
        batch = tokens(["a photo of a ox", "okapi"], padding=True, return_tensors="pt")
        pooled = model.text_model(**batch).pooler_output
        expected = torch.nn.functional.normalize(model.text_projection(pooled)).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert encoder.is_clip
    assert "photo" in encoder.prompt


def test_an_ensemble_is_the_direction_of_the_mean_of_its_texts(dual_encoder):
    encoder = TextEncoder(dual_encoder)
    one, two, three = encoder.encode(["a red fox", "a photo of a fox", "a grey wolf"])
    found = encoder.encode_ensembles([["a red fox", "a photo of a fox"], ["a grey wolf"]])
    np.testing.assert_allclose(found, [(one + two) / np.linalg.norm(one + two), three], atol=1e-6)


def test_the_fingerprint_follows_weights_and_words_and_not_the_place(dual_encoder, make_dual_encoder, bert, tmp_path):
    known = TextEncoder(dual_encoder).fingerprint
    moved = shutil.copytree(dual_encoder, tmp_path / "moved")
    assert TextEncoder(moved).fingerprint == known
    (moved / "README.md").write_text("says nothing about vectors")
    assert TextEncoder(moved).fingerprint == known
    tokenizer = (moved / "tokenizer.json").read_text()
    (moved / "tokenizer.json").write_text(tokenizer.replace('"fox"', '"dog"'))
    assert TextEncoder(moved).fingerprint != known
    assert TextEncoder(make_dual_encoder(seed=1)).fingerprint != known
    sentences = shutil.copytree(bert, tmp_path / "sentences")
    assert TextEncoder(sentences).fingerprint == TextEncoder(bert).fingerprint
    (sentences / "1_Pooling" / "config.json").write_text("{}")
    assert TextEncoder(sentences).fingerprint != TextEncoder(bert).fingerprint


def test_a_model_is_loaded_once(dual_encoder, monkeypatch):
    transformers = pytest.importorskip("transformers")
    calls, load = [], transformers.AutoModel.from_pretrained
    monkeypatch.setattr(transformers.AutoModel, "from_pretrained", lambda *a, **k: calls.append(a) or load(*a, **k))
    encoder = TextEncoder(dual_encoder)
    assert calls == []
    encoder.encode(["fox"])
    encoder.encode(["wolf"])
    assert len(calls) == 1


def test_code_that_a_model_names_is_not_run(bert, tmp_path):
    folder = shutil.copytree(bert, tmp_path / "evil")
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["type"] = "evil.Model"
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(BadInput, match=r"evil\.Model"):
        TextEncoder(folder).encode(["ox"])
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("module", "settings"),
    [
        ({"type": "sentence_transformers.models.Router"}, {}),  # names further classes in a file of its own
        ({"path": "../elsewhere"}, {}),
        ({}, {"activation_function": "subprocess.Popen"}),
    ],
)
def test_a_module_leads_to_no_other_code_and_no_other_folder(bert, tmp_path, module, settings):
    folder = shutil.copytree(bert, tmp_path / "evil")
    modules = json.loads((folder / "modules.json").read_text())
    modules[1] |= module
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / modules[1]["path"]).mkdir(exist_ok=True)
    (folder / modules[1]["path"] / "config.json").write_text(json.dumps(settings))
    with pytest.raises(BadInput, match="give another model"):
        TextEncoder(folder).encode(["ox"])


@pytest.mark.parametrize(
    "rules",
    [
        {"normalizer": {"type": "Sequence", "normalizers": [DOUBLE] * 40}},
        {"normalizer": {"type": "Replace", "pattern": {"Regex": "(a*)*(a*)*(a*)*b"}, "content": ""}},
        {"padding": PADDING | {"strategy": {"Fixed": 10**10}}},
        {"padding": PADDING | {"pad_to_multiple_of": 10**10}},
    ],
    ids=["a text that doubles", "a pattern that never ends", "filled up", "filled up to a multiple"],
)
def test_a_tokenizer_that_asks_for_any_memory_or_time_is_one_sentence(bert, tmp_path, monkeypatch, rules):
    monkeypatch.setattr(descriptions, "TOKENIZER_MEMORY", 1 << 29)
    monkeypatch.setattr(descriptions, "TOKENIZER_SECONDS", 3)
    folder = shutil.copytree(bert, tmp_path / "evil")
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer | rules))
    with pytest.raises(BadInput, match=r"tokenizer\.json takes too much memory or time.*give another model"):
        TextEncoder(folder).encode(["a" * 40 + " b"])


def test_a_full_length_that_only_the_tokenizer_believes_in_is_not_filled_up_to(clip, tmp_path):
    folder = shutil.copytree(clip, tmp_path / "evil")
    about = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(about | {"model_max_length": 10**12}))
    assert TextEncoder(folder).encode(["ox " * 1000]).shape[0] == 1  # cut at what the model has positions for


@pytest.mark.parametrize(
    ("claim", "said"), [("num_hidden_layers", "10,000,000 layers"), ("vocab_size", r"[\d,]+ bytes")]
)
def test_a_model_that_claims_more_than_its_weights_hold_is_one_sentence(bert, tmp_path, claim, said):
    folder = shutil.copytree(bert, tmp_path / "evil")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {claim: 10**7}))
    with pytest.raises(BadInput, match=f"claims {said}.*give another model"):
        TextEncoder(folder).encode(["ox"])


def test_a_name_that_cannot_be_downloaded_is_one_sentence():
    pytest.importorskip("transformers")
    with pytest.raises(BadInput, match=r"could not be downloaded.*local folder"):
        TextEncoder("nobody/nothing")


@pytest.mark.parametrize(
    ("name", "said"), [("014.Indigo_Bunting", "Indigo Bunting"), ("ox", "ox"), ("polar+bear", "polar bear"), ("7", "7")]
)
def test_names_are_read_as_a_person_says_them(name, said):
    assert readable(name) == said


def test_weights_of_half_precision_are_computed_in_single_precision(shared, monkeypatch):
    folder = shared / "backbones" / "all-minilm-l6-v2"
    if not folder.is_dir():
        pytest.skip(f"needs the text model {folder}")
    sentence_transformers = pytest.importorskip("sentence_transformers")
    kinds = set()
    encode = sentence_transformers.SentenceTransformer.encode

    def watched(self, *args, **more):
        kinds.update(str(weight.dtype) for weight in self.parameters())
        return encode(self, *args, **more)

    monkeypatch.setattr(sentence_transformers.SentenceTransformer, "encode", watched)
    assert TextEncoder(folder).encode(["a bird"]).shape == (1, 384)
    assert kinds == {"torch.float32"}
