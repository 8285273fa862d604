"""How far one outer iteration of Algorithm 1 is above its matrix products, and below the literal reading.

    python benchmarks/training_speed.py                      ratios on the shapes of AwA1 and CUB
    python benchmarks/training_speed.py --data PATH_TO_CUB   also: the `fast` preset against the literal reading

Everything is measured in one process, in turns, on random features; the ratios are medians over the turns and are
what counts (seconds depend on the machine and on who else uses it).
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from firstsight.methods._gradient_training import RowsInMemory
from firstsight.methods.deep_embedding import PRESETS, DeepEmbedding
from firstsight.methods.deep_embedding.alternating import AlternatingTraining, factor_to_length

SHAPES = {"AwA1": (19_832, 2048, 40, 85), "CUB": (7_057, 2048, 150, 312)}  # rows, features, classes, attributes


def make(shape):
    n, d, classes, attributes = shape
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(n, d, generator=generator)
    A = torch.rand(classes, attributes, generator=generator)
    return X, torch.randint(0, classes, (n,), generator=generator), A / A.norm(dim=1, keepdim=True)


def bare_products(X, y, A, settings):
    """Every matrix product that one outer iteration needs, and nothing else."""
    batch, e, k = settings["batch_size"], settings["embedding_dim"], len(A)
    hidden = (A.shape[1] + e) // 2
    W, V = torch.rand(e, X.shape[1]), torch.rand(k, e)
    W1, W2 = torch.rand(hidden, A.shape[1]), torch.rand(e, hidden)

    def run():
        for start in range(0, len(X), batch):
            x = X[start : start + batch]
            embedded = x @ W.T
            logits = embedded @ V.T
            logits.T @ embedded  # gradient of W
            (logits @ V).T @ x  # gradient of φ, through the classifier
        for start in range(0, len(X), 4096):  # φ of all rows, for the class means
            X[start : start + 4096] @ W.T
        for _ in range(settings["semantic_steps"]):
            inner = A @ W1.T
            outer = inner @ W2.T
            outer.T @ inner
            (outer @ W2).T @ A

    return run


def ours(X, y, A, settings):
    sizes = (X.shape[1], A.shape[1], len(A))
    training = AlternatingTraining(settings, sizes, 0, None, lambda done, note: None)
    # With a factor, as in a fit of the same preset: the features here have none of the customary lengths.
    rows = RowsInMemory(X, factor_to_length(X.numpy(), settings["feature_length"]))

    def run():
        training.run(rows, y, A, 1)

    return run


def literal(X, y, A, settings):
    """The paper read word by word: a row loader, both steps on all rows, Adam as it comes."""
    e = settings["embedding_dim"]
    hidden = (A.shape[1] + e) // 2
    phi = nn.Sequential(nn.Linear(X.shape[1], e), nn.ReLU())
    psi = nn.Sequential(nn.Linear(A.shape[1], hidden), nn.ReLU(), nn.Linear(hidden, e), nn.ReLU())
    W = nn.Linear(e, len(A))
    options = {"lr": settings["learning_rate"], "weight_decay": 2 * settings["penalty"]}
    visual = torch.optim.Adam([*phi.parameters(), *W.parameters()], **options)
    semantic = torch.optim.Adam(psi.parameters(), **options)
    loader = DataLoader(TensorDataset(X, A[y], y), batch_size=settings["batch_size"], shuffle=True)

    def run():
        for x, a, label in loader:
            embedded = phi(x)
            with torch.no_grad():
                target = psi(a)
            loss = (embedded - target).square().sum(1).mean()
            loss = loss + settings["separation"] * cross_entropy(W(embedded), label)
            visual.zero_grad()
            loss.backward()
            visual.step()
        for x, a, _ in loader:
            with torch.no_grad():
                target = phi(x)
            loss = (target - psi(a)).square().sum(1).mean()
            semantic.zero_grad()
            loss.backward()
            semantic.step()

    return run


def in_turns(candidates, turns):
    """Seconds (turns, candidates); every turn runs all of them, so that a busy moment hits all alike."""
    for run in candidates.values():
        run()  # warm up
    seconds = np.empty((turns, len(candidates)))
    for turn in range(turns):
        for column, run in enumerate(candidates.values()):
            began = time.perf_counter()
            run()
            seconds[turn, column] = time.perf_counter() - began
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--preset", default="validated", choices=PRESETS)
    parser.add_argument("--data", help="a CUB folder: compare whole trainings, too")
    arguments = parser.parse_args()
    settings = PRESETS[arguments.preset]
    print(f"preset {arguments.preset}, batch {settings['batch_size']}, {torch.get_num_threads()} threads")
    print(f"{'shape':6} {'products':>9} {'ours':>9} {'literal':>9}   ours/products  ours/literal")
    for name, shape in SHAPES.items():
        data = make(shape)
        candidates = {f.__name__: f(*data, settings) for f in (bare_products, ours)}
        candidates["literal"] = literal(*data, PRESETS["paper"])
        seconds = in_turns(candidates, arguments.turns)
        bare, own, plain = np.median(seconds, axis=0)
        above, below = np.median(seconds[:, 1] / seconds[:, 0]), np.median(seconds[:, 1] / seconds[:, 2])
        print(f"{name:6} {bare:8.3f}s {own:8.3f}s {plain:8.3f}s   {above:13.2f}  {below:12.2f}", flush=True)
    if arguments.data:
        from firstsight import evaluate, load_dataset

        dataset = load_dataset(arguments.data)
        result = evaluate(DeepEmbedding(preset="fast", random_state=0), dataset)
        trained = sum(step["seconds"] for step in result.models["zsl"].history_)
        whole = PRESETS["paper"]["iterations"] * plain
        print(
            f"fast preset on {dataset.name}: T1 {100 * result.t1:.1f}, H {100 * result.h:.1f} after {trained:.1f} s of "
            f"training; the literal reading takes {whole:.1f} s: ratio {trained / whole:.3f}"
        )


if __name__ == "__main__":
    main()
