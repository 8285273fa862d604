"""
Why the embedding collapses at λ = 0
====================================

The deep embedding pulls pictures and descriptions of a class together. If nothing keeps classes apart, the cheapest
way to do that is to put everything in one place.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

import firstsight

data = firstsight.load_dataset("glyphs")
X, y = data.part("train")
few = np.isin(y, data.seen_classes[:30])
X, y, table = X[few], y[few], data.descriptions.loc[data.seen_classes[:30]]

# %%
# λ is the parameter ``separation``. ``fit`` warns when it finds that its embedding has collapsed.
histories, spread = {}, {}
for separation in (0.0, 1.0, 100.0):
    model = firstsight.DeepEmbedding(
        separation=separation, embedding_dim=64, iterations=12, learning_rate=1e-3, batch_size=128, random_state=0
    )
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(X, y, table)
    for warning in told:
        print(f"λ = {separation:g}: {warning.message}")
    histories[separation] = [step["regression"] for step in model.history_]
    spread[separation] = np.linalg.norm(model.embed_classes() - model.embed_classes().mean(axis=0), axis=1).mean()

# %%
# With λ = 0 the distance between pictures and their class falls to nothing, which looks like success; but the classes
# have fallen onto each other, too.
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
for (separation, history), width in zip(histories.items(), (5, 1.5, 1.5), strict=True):  # λ = 0 lies under λ = 1
    left.semilogy(range(1, len(history) + 1), history, linewidth=width, label=f"λ = {separation:g}")
left.set(xlabel="iteration", ylabel="squared distance\nof a picture to its class")
left.legend()
right.bar([f"λ = {value:g}" for value in spread], list(spread.values()), color="#4878a8")
right.set(ylabel="distance of classes\nfrom their centre")
plt.show()
