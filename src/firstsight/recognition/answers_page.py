"""Answers as one page that needs nothing else: the cards of the served page, with small pictures inside."""

from __future__ import annotations

import base64
import re
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from firstsight.encoders.thumbnails import thumbnail
from firstsight.files import write_atomically
from firstsight.page_parts import as_data, read_script, read_style, sha256_source
from firstsight.recognition.answers import NO_CALIBRATION, Answers
from firstsight.terminal import counted


def write_answers_page(answers: Answers, path: str | Path, title: str = "Answers") -> None:
    """Write the page; every name on it is text, and the page's own policy lets nothing but its own script run."""
    style = read_style("tokens.css", "answer_cards.css", "answers_page.css")
    script = read_script("elements.js", "answer_cards.js", "answers_page.js")
    template = files("firstsight.page_parts").joinpath("answers_page.html").read_text(encoding="utf-8")
    page = Template(template).substitute(
        title=escape(title),
        summary=re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(_summary(answers))),
        style=style,
        style_source=sha256_source(style),
        script=script,
        script_source=sha256_source(script),
        data=as_data(_entries(answers)),
    )
    write_atomically(path, page)


def _entries(answers: Answers) -> list[dict[str, Any]]:
    entries = answers.as_json()
    for row, entry in enumerate(entries):
        entry["file"] = entry["file"] if answers.key == "file" else f"row {entry['row']}"
        entry["truth"] = answers.truth[row] if answers.truth is not None else None
        if answers.pictures and (small := thumbnail(answers.pictures[row])) is not None:
            entry["picture"] = f"data:image/jpeg;base64,{base64.b64encode(small).decode()}"
    return entries + [{"file": name, "error": why, "class": None, "top": []} for name, why in answers.skipped]


def _summary(answers: Answers) -> str:
    """What was asked, of how many classes, and how well it went where that is known."""
    n_seen = int(answers.seen.sum())
    said = [
        f"{counted(len(answers), 'row' if answers.key == 'row' else 'picture')}, among "
        f"{counted(len(answers.candidates), 'class')}: {n_seen} with labelled samples, {len(answers.seen) - n_seen} "
        "with a description only."
    ]
    if answers.rejected is not None and (n := int(answers.rejected.sum())):
        said.append(f"{n} {'is' if n == 1 else 'are'} none of these.")
    if answers.skipped:
        said.append(f"{counted(len(answers.skipped), 'picture')} could not be read.")
    if (score := answers.score()) is not None:
        said.append(str(score))
    if answers.confidence is None:
        said.append(f"{NO_CALIBRATION[0].upper()}{NO_CALIBRATION[1:]}.")
    return " ".join(said)
