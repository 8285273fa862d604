"""A tokenizer.json is tried in a process of its own first: a few lines of it can ask for any memory or time.

Its rules are a small language: replacements that double a text forty times, patterns that never end. What the trial
comes through with the same texts, this process comes through, too.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from firstsight.errors import UnreadableFile
from firstsight.files import require_file

MEMORY = 2 << 30  # bytes; the largest vocabularies take a quarter of it
SECONDS = 60  # of CPU time, and one more for every hundred texts; a hundredth of it is usual
_NOT_A_TOKENIZER = 3
_PROGRAM = f"""
import json, sys
try:
    import resource
    for what, limit in (("AS", {{memory}}), ("CPU", {{seconds}}), ("CORE", 0)):
        resource.setrlimit(getattr(resource, "RLIMIT_" + what), (limit, limit))
except (ImportError, ValueError, OSError):  # Windows has none; the caller's clock ends it there
    pass
from tokenizers import Tokenizer
path, texts = json.load(sys.stdin)
try:
    tokenizer = Tokenizer.from_file(path)
except Exception:  # a panic of Rust is none of these, nor is memory that is not there
    sys.exit({_NOT_A_TOKENIZER})
tokenizer.encode_batch(texts)
"""


def try_tokenizers(folder: Path, texts: Sequence[str]) -> None:
    """Refuse a text model whose tokenizer does not get through these texts within limits."""
    if find_spec("tokenizers") is None:  # then nothing of the kind is read
        return
    seconds = SECONDS + len(texts) // 100
    for path in [folder / "tokenizer.json", *sorted(folder.glob("*/tokenizer.json"))]:
        if not path.exists():
            continue
        try:
            ended = subprocess.run(
                # -P: what lies in the current folder is not for this process to import.
                [sys.executable, "-P", "-c", _PROGRAM.format(memory=MEMORY, seconds=seconds)],
                input=json.dumps([str(require_file(path)), list(texts)]).encode(),
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=20 * seconds,
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            ended = -1
        if ended not in (0, _NOT_A_TOKENIZER):  # what is no tokenizer at all, transformers says better
            raise UnreadableFile(
                f"{path} takes too much memory or time to split {len(texts):,} texts into words, so it is damaged or "
                "harmful; restore the model's folder, or give another model."
            )
