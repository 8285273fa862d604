"""Find a pretrained model by name or folder, in the local cache or on the Hub."""

from __future__ import annotations

import hashlib
import json
import os
from functools import partial
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from firstsight._io.files import open_regular, read_regular
from firstsight.errors import BadInput, UnreadableFile

# Weights as safetensors only: the other formats can run code while they are read.
_WANTED = ["*.json", "*.txt", "*.model", "*.safetensors"]
_UNWANTED = ["onnx/*", "openvino/*"]
_WAIT = 5.0  # seconds for the hub to answer


def find_model(name: str | Path, what: str, example: str) -> Path:
    """The folder of a model: given as one, in the Hugging Face cache, or downloaded into it.

    `what` ("a backbone") and `example` are for the sentence that says what to do when there is none.
    """
    folder = at_home(name)
    if folder.is_dir():
        return _checked(folder, what)
    text = str(name)
    if folder.is_absolute() or text.startswith((".", "~")) or text.count("/") > 1 or folder.is_file():
        raise UnreadableFile(f"There is no folder {text}; {what} is a name such as {example} or a folder on this disk.")
    return _checked(_from_hub(text, what, example), what)


def at_home(name: str | Path) -> Path:
    """A path whose `~` is the user's home, where there is such a user; pathlib's own way ends in an error."""
    return Path(os.path.expanduser(name))


def hash_files(paths: list[Path]) -> str:
    """SHA-256 of files by name and content; JSON counts by its values, without where it came from."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.name.encode() + b"\0" + _content_hash(path) + b"\0")
    return digest.hexdigest()


def weights_of(folder: Path) -> list[Path]:
    """The files that hold a model's weights, in its own folder."""
    return sorted(folder.glob("*.safetensors"))


def read_json(path: Path) -> Any:
    """What a file of a model's folder says; damage, and nesting that no reader can follow, is one sentence."""
    try:
        return from_json(read_regular(path))  # rejects deep nesting, at the same depth on every version of Python
    except (OSError, ValueError) as error:
        raise UnreadableFile(f"{path} could not be read as JSON ({error}); restore the model's folder.") from error


def _content_hash(path: Path) -> bytes:
    if path.suffix == ".json":
        values = read_json(path)
        if isinstance(values, dict):
            for key in ("_name_or_path", "transformers_version"):
                values.pop(key, None)
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).digest()
    try:
        with open(open_regular(path), "rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise UnreadableFile(f"{path} could not be read ({error.strerror}); check it.") from error


def _checked(folder: Path, what: str) -> Path:
    if not (folder / "config.json").is_file() and not (folder / "modules.json").is_file():
        raise BadInput(f"{folder} has no config.json, so it is not {what}; give a folder in transformers' format.")
    if not weights_of(folder) and not list(folder.glob("*/*.safetensors")):
        raise BadInput(
            f"{folder} has no weights as .safetensors, and other formats are not read because they can run code; "
            "save the model with save_pretrained(…, safe_serialization=True)."
        )
    return folder


def _from_hub(name: str, what: str, example: str) -> Path:
    try:
        from huggingface_hub import HfApi, snapshot_download
        from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError, RepositoryNotFoundError
    except ImportError as error:
        raise BadInput(
            "Encoding needs transformers, which is not installed; pip install 'firstsight[images,text]'."
        ) from error
    snapshot = partial(snapshot_download, name, allow_patterns=_WANTED, ignore_patterns=_UNWANTED)
    try:
        folder = Path(snapshot(local_files_only=True))
        if weights_of(folder) or list(folder.glob("*/*.safetensors")):
            return folder
    except LocalEntryNotFoundError:
        pass
    except HFValidationError as error:
        raise BadInput(
            f"There is no folder {name!r}, and no model has this name; {what} is a name such as {example} or a "
            "folder on this disk."
        ) from error
    try:
        HfApi().model_info(name, timeout=_WAIT)  # a connection that swallows everything would be waited for in vain
        return Path(snapshot(etag_timeout=_WAIT))
    except RepositoryNotFoundError as error:
        raise BadInput(
            f"The Hugging Face hub has no model {name!r}; check the name, or give a local folder."
        ) from error
    except Exception as error:  # network errors come in as many types as there are layers
        reason = (str(error) or type(error).__name__).splitlines()[0].removeprefix("Got: ")
        raise BadInput(
            f"There is no folder {name!r}, and the model of that name could not be downloaded ({reason}); without a "
            "connection, give the path of a local folder that holds the model."
        ) from error
