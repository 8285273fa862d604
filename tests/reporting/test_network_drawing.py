from __future__ import annotations

import pytest

from firstsight.reporting.embedding_maps import network_drawing
from firstsight.reporting.page import all_sections


def test_the_architecture_names_layers_sizes_and_losses():
    picture = network_drawing(512)
    said = " ".join([*(text.get_text() for text in picture.figure.axes[0].texts), *picture.notes])
    for words in ("d → 512", "a → (a + 512) / 2", "‖φ(x) − ψ(a)‖²", "λ", "cross-entropy", "η"):
        assert words in said


@pytest.mark.parametrize(
    ("sizes", "joint", "source"),
    [
        ({"deep-embedding": 256, "rn": 2048}, 256, "these records"),
        ({"deep-embedding": 256, "transductive-deep-embedding": 512}, 1024, "the paper"),
        ({"deep-embedding": None, "rn": 2048}, 1024, "the paper"),  # a space of its own
    ],
)
def test_the_architecture_has_the_size_of_the_records_where_they_have_one(read, synthetic, sizes, joint, source):
    records = [synthetic.record(method=m, parameters={"embedding_dim": size}) for m, size in sizes.items()]
    section = next(s for s in all_sections(read(records), []) if s.name == "architecture")
    (picture,) = section.blocks
    assert picture.notes[0] == f"The joint space has {joint} dimensions, as in {source}."
    assert f"d → {joint}" in " ".join(text.get_text() for text in picture.figure.axes[0].texts)


def test_somebody_elses_methods_are_not_explained_by_our_network(read, synthetic):
    assert not any(s.name == "architecture" for s in all_sections(read([synthetic.record(method="mine")]), []))
