"""Text encoders: names or sentences to vectors with a sentence-transformers or CLIP text model."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from firstsight._io.files import require_file
from firstsight._io.sandbox import SandboxDied, SandboxFailed, call_in_sandbox
from firstsight.devices import PRECISIONS, find_device, lowered, torch
from firstsight.encoders.backbone import check_declared_size, transformers_quietly
from firstsight.encoders.local_models import at_home, find_model, read_json
from firstsight.errors import BadInput, UnknownName, UnreadableFile

# A tokenizer.json is tried in the sandbox first: its rules are a small language, in which a few lines can ask for any
# memory or time (replacements that double a text forty times, patterns that never end).
MEMORY = 2 << 30  # bytes; the largest vocabularies take a quarter of it
SECONDS = 60  # of CPU time, and one more for every hundred texts; a hundredth of it is usual


def try_tokenizers(folder: Path, texts: Sequence[str]) -> None:
    """Refuse a text model whose tokenizer does not get through these texts within limits."""
    if find_spec("tokenizers") is None:  # then nothing of the kind is read
        return
    for path in [folder / "tokenizer.json", *sorted(folder.glob("*/tokenizer.json"))]:
        if not path.exists():
            continue
        try:
            call_in_sandbox(
                "firstsight.encoders.text",
                "run_tokenizer",
                str(require_file(path)),
                list(texts),
                memory=MEMORY,
                seconds=SECONDS + len(texts) // 100,
            )
        except (SandboxDied, SandboxFailed):
            raise UnreadableFile(
                f"{path} takes too much memory or time to split {len(texts):,} texts into words, so it is damaged or "
                "harmful; restore the model's folder, or give another model."
            ) from None


def run_tokenizer(path: str, texts: list[str]) -> None:
    """Split texts with a tokenizer.json, in the sandbox; of a file that is none, transformers reports more."""
    from tokenizers import Tokenizer  # type: ignore[import-not-found,unused-ignore]

    try:
        tokenizer = Tokenizer.from_file(path)
    except Exception:  # a panic of Rust is none of these, nor is memory that runs out
        return
    tokenizer.encode_batch(texts)


# Names or sentences → vectors, with a sentence-transformers or CLIP text model.

DEFAULT = "sentence-transformers/all-MiniLM-L6-v2"
# CLIP was trained on captions: a bare word is not what it knows.
CLIP_PROMPT = "a photo of a {}"
# Parts of a sentence model; others (routers, word lists) name further classes in files of their own.
_MODULES = ("Transformer", "Pooling", "Normalize", "Dense", "LayerNorm", "Dropout")


class TextEncoder:
    """Encodes texts with a text model, given by name or as a local folder; vectors have unit length.

    `device` and `precision` are those of `ImageEncoder`.
    """

    def __init__(self, encoder: str | Path = DEFAULT, *, device: str = "cpu", precision: str = "float32"):
        if precision not in PRECISIONS:
            raise UnknownName("precision", precision, PRECISIONS)
        self._device, self._precision = find_device(device), precision
        self._folder = find_model(encoder, "a text model", DEFAULT)
        path = self._folder / "config.json"
        config = read_json(path) if path.exists() else {}
        if not isinstance(config, dict):
            raise UnreadableFile(f"{path} must hold a JSON object; restore the model's folder.")
        self.is_clip = "vision_config" in config and "text_config" in config
        self.name = self._folder.resolve().name if at_home(encoder).is_dir() else str(encoder)

    @property
    def prompt(self) -> str:
        """What a class's bare name is put into, `{}` standing for it."""
        return CLIP_PROMPT if self.is_clip else "{}"

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors (n, d) float32 of unit length."""
        try_tokenizers(self._folder, texts)
        vectors = self._clip(list(texts)) if self.is_clip else self._sentences(list(texts))
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return (vectors / np.where(norms > 0, norms, 1)).astype(np.float32)

    def _clip(self, texts: list[str]) -> np.ndarray:
        with transformers_quietly(self._folder, "a text model") as transformers:
            check_declared_size(self._folder, transformers)
            safely = {"trust_remote_code": False, "local_files_only": True}
            tokenizer = transformers.AutoTokenizer.from_pretrained(self._folder, **safely)
            model = (
                transformers.AutoModel.from_pretrained(
                    self._folder, use_safetensors=True, dtype=torch.float32, **safely
                )
                .eval()
                .to(self._device)
            )
            # SigLIP was trained on texts filled up to their full length, and answers otherwise to shorter ones.
            padding = "max_length" if "siglip" in model.config.model_type else True
            # What the tokenizer believes to be the full length may be anything.
            tokenizer.model_max_length = min(
                tokenizer.model_max_length, model.config.text_config.max_position_embeddings
            )
            vectors = []
            with torch.inference_mode(), lowered(self._device, self._precision):
                for start in range(0, len(texts), 64):
                    tokens = tokenizer(texts[start : start + 64], padding=padding, truncation=True, return_tensors="pt")
                    output = model.get_text_features(**tokens.to(self._device))
                    vectors.append(getattr(output, "pooler_output", output).float().cpu().numpy())
        return np.concatenate(vectors)

    def _sentences(self, texts: list[str]) -> np.ndarray:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise BadInput(
                "Encoding words needs sentence-transformers, which is not installed; pip install 'firstsight[text]'."
            ) from error
        self._refuse_code()
        with (
            transformers_quietly(self._folder, "a text model") as transformers,
            lowered(self._device, self._precision),
        ):
            check_declared_size(self._folder, transformers)
            model = SentenceTransformer(
                str(self._folder),
                device=str(self._device),
                trust_remote_code=False,
                local_files_only=True,
                model_kwargs={"use_safetensors": True, "dtype": torch.float32},  # half precision crawls on a CPU
            )
            return np.asarray(model.encode(texts, show_progress_bar=False, convert_to_numpy=True))

    def _refuse_code(self) -> None:
        """A list of modules may name any Python class; only these of sentence-transformers are let in."""
        path = self._folder / "modules.json"
        if not path.is_file():
            return
        try:
            modules = [(str(module["type"]), self._folder / str(module["path"])) for module in read_json(path)]
        except (TypeError, LookupError) as error:
            raise UnreadableFile(f"{path} could not be read ({error}); restore the model's folder.") from error
        for kind, part in modules:
            if not kind.startswith("sentence_transformers.") or kind.rsplit(".", 1)[1] not in _MODULES:
                raise BadInput(f"{path} asks for the code {kind!r}, which is not run; give another model.")
            if not Path(os.path.realpath(part)).is_relative_to(os.path.realpath(self._folder)):
                raise BadInput(f"{path} leads out of its folder, to {str(part)!r}; give another model.")
            settings = read_json(part / "config.json") if (part / "config.json").is_file() else {}
            wanted = str(settings.get("activation_function", "torch.nn.")) if isinstance(settings, dict) else ""
            if not wanted.startswith("torch.nn."):
                raise BadInput(f"{part} asks for the code {wanted!r}, which is not run; give another model.")


def readable(name: str) -> str:
    """A class's name as a person would say it: `014.Indigo_Bunting` is Indigo Bunting.

    >>> readable("014.Indigo_Bunting")
    'Indigo Bunting'
    """
    return re.sub(r"[_+\s]+", " ", re.sub(r"^\d+[._\s-]+", "", name)).strip() or name
