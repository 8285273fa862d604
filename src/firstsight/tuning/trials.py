"""Trials of parameters on validation folds: every fit is a job of the benchmark's runner, parallel and safe to kill."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from firstsight.data import ZeroShotDataset
from firstsight.execution.engines import Engine
from firstsight.execution.entries import Entry
from firstsight.execution.plan import make_plan
from firstsight.execution.runner import Event
from firstsight.execution.session import CHECKPOINTS, prepare, remove_if_empty
from firstsight.records.record_schema import Cell, Key, Record, key_of
from firstsight.records.storage import file_stem, read_records
from firstsight.tuning.candidates import FIGURE, Candidate

STUDY = "tune"


@dataclass(frozen=True)
class Trials:
    """A search's fits, whose records are kept in `folder`: what is there already is not fitted again."""

    folder: Path
    folds: list[ZeroShotDataset]
    entry: Entry  # with the parameters that are not searched
    objectives: list[str]
    seed: int
    engine: Engine
    tell: Callable[[list[Record]], None] = lambda records: None  # hears of every fit that has ended
    calibrated: bool = False  # H is the one with the fold's best constant taken off seen classes' scores

    def score(self, candidates: list[dict[str, Any]]) -> list[Candidate]:
        """Fit with each candidate on every fold's training rows and judge it on the classes that the fold holds out.

        One fit of an inductive method serves both objectives; a transductive one is fitted for each.
        """
        plans = {
            fold.name: [
                replace(job, seed=self.seed)
                for job in make_plan(fold.name, [self.entry], self.objectives, study=STUDY, variants=candidates)
            ]
            for fold in self.folds
        }
        instead = f"those are trials of another search: remove {self.folder} to start again"
        with prepare(self.folder, self.folds, plans, instead=instead) as session:
            session.run(self.engine, self._show)
        records = {key_of(record): record for record in read_records(self.folder)}
        return [self._candidate(parameters, records) for parameters in candidates]

    def _show(self, event: Event) -> None:
        if event.records is not None:
            self.tell(event.records)

    def _candidate(self, parameters: dict[str, Any], known: dict[Key, Record]) -> Candidate:
        cells = [
            [known[key_of(Cell(fold.name, self.entry.name, self.seed, parameters, STUDY, o))] for fold in self.folds]
            for o in self.objectives
        ]
        errors = [record.error or "" for records in cells for record in records if record.status == "failed"]
        if errors:
            return Candidate(parameters, {}, errors[0])
        figures = zip(self.objectives, cells, strict=True)
        return Candidate(parameters, {o: [self._figure(record, o) for record in records] for o, records in figures})

    def _figure(self, record: Record, objective: str) -> float:
        if objective == "gzsl" and self.calibrated:
            return (record.seen_unseen.best_h if record.seen_unseen else None) or 0.0
        figure: float = getattr(record, FIGURE[objective])
        return figure


def forget_trials(folder: Path, folds: list[ZeroShotDataset]) -> None:
    """Remove what a search has left in a folder, and the folder if nothing else is in it."""
    for path in folder.glob("*.jsonl"):
        if all(record.study == STUDY for record in read_records(path)):
            path.unlink()
    for fold in folds:  # checkpoints are those of fits that failed
        checkpoints = folder / CHECKPOINTS / file_stem(fold.name)
        for checkpoint in checkpoints.glob("*.safetensors"):
            checkpoint.unlink()
        remove_if_empty(checkpoints)
    remove_if_empty(folder / CHECKPOINTS)
    remove_if_empty(folder)
