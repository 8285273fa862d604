from __future__ import annotations

import json
from pathlib import Path

import pytest

from firstsight.errors import BadInput, UnreadableFile
from firstsight.persistence.model_folder import save
from firstsight.persistence.model_schema import (
    ModelFile,
    Provenance,
    digest_of,
    model_file_documentation,
    read_model_file,
)

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def about(calibrated, tmp_path):
    save(calibrated, tmp_path / "model", {"seed": 3, "backbone": {"name": "tiny", "fingerprint": "beef"}})
    return json.loads((tmp_path / "model" / "model.json").read_text())


def _read(about) -> ModelFile:
    signed = {**about, "digest": digest_of(about)}
    return read_model_file(json.dumps(signed).encode(), Path("model"))


def _places(value, path=()):
    """Every place in a tree of JSON, outermost first; of a list, its first entry."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _places(inner, (*path, key))


def _with(about, path, value):
    if not path:
        return value
    return {**about, path[0]: _with(about[path[0]], path[1:], value)}


# Any value, type or shape that JSON has: the schema is to notice, not the code behind it.
@pytest.mark.parametrize("strange", [None, "word", -1.5, [1], {"a": {}}, True])
def test_a_value_of_the_wrong_type_is_one_sentence_or_harmless(about, strange):
    refused = []
    for path in _places({k: v for k, v in about.items() if k not in ("values", "parameters", "digest")}):
        if not path:
            continue
        try:
            _read(_with(about, path, strange))
        except BadInput as error:
            refused.append(str(error))
    assert len(refused) >= 10
    assert not [said for said in refused if "\n" in said or not ("model.json" in said or "newer" in said)]


@pytest.mark.parametrize("missing", ["format", "firstsight", "method", "parameters", "values", "arrays_sha256"])
def test_a_missing_key_is_named(about, missing):
    del about[missing]
    with pytest.raises(UnreadableFile, match=missing):
        _read(about)


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"a":' * 5000 + b"1" + b"}" * 5000, b"\xff", b"", b"1" * 5000])
def test_what_is_no_object_of_json_is_one_sentence(text):
    with pytest.raises(UnreadableFile, match="cannot be read as a model") as caught:
        read_model_file(text, Path("model"))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_spaces_and_the_order_of_keys_may_change_and_nothing_else(about):
    turned = dict(reversed(list(about.items())))
    assert read_model_file(json.dumps(turned, indent=8).encode(), Path("m")) == _read(about)
    about["values"]["classes_"].reverse()
    with pytest.raises(UnreadableFile, match="does not match its digest"):
        read_model_file(json.dumps(about).encode(), Path("m"))


def test_the_documents_table_is_the_schemas_own():
    text = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    shown = text.split("<!-- model.json: begin -->\n")[1].split("<!-- model.json: end -->")[0]
    assert shown.strip() == model_file_documentation().strip(), "put model_file_documentation() there"


def test_a_wrong_fact_is_refused_before_anything_is_written(calibrated, tmp_path):
    with pytest.raises(BadInput, match=r"seed: input should be a valid integer"):
        save(calibrated, tmp_path / "model", {"seed": "three"})
    assert not list(tmp_path.iterdir())
    assert Provenance.read({"note": "ñ"}).as_json() == {"note": "ñ"}
