"""
GridSearchCV with folds of classes
==================================

Ordinary cross-validation holds out rows of classes that stay in training: it measures the wrong thing here. Hold out
whole classes.
"""

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.model_selection import GridSearchCV

import firstsight
from firstsight.evaluation.scorers import ClassWiseSplit, h_scorer, t1_scorer

data = firstsight.load_dataset("glyphs")
X, y = data.part("train")

# %%
# ``ClassWiseSplit`` holds out some classes and a share of the rows of the others, so that both T1 and H can be
# measured.
grid = {"mean_penalty": [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]}
search = GridSearchCV(
    firstsight.GFZSL(),
    grid,
    scoring={"T1": t1_scorer, "H": h_scorer},
    refit="T1",
    cv=ClassWiseSplit(3, random_state=0),
)
search.fit(X, y, descriptions=data.descriptions)
table = pd.DataFrame(search.cv_results_)
print(search.best_params_)

# %%
# The test classes were not touched; now they may be, once.
unseen, truth = data.part("test_unseen")
print(f"T1 on test classes: {t1_scorer(search.best_estimator_, unseen, truth):.3f}")

figure, axis = plt.subplots(figsize=(6.5, 3.4), layout="constrained")
for name in ("T1", "H"):
    mean, deviation = table[f"mean_test_{name}"], table[f"std_test_{name}"]
    axis.errorbar(grid["mean_penalty"], 100 * mean, 100 * deviation, marker="o", capsize=3, label=name)
axis.axvline(search.best_params_["mean_penalty"], color="gray", linestyle=":", label="chosen for T1")
axis.set(xscale="log", xlabel="mean_penalty", ylabel="%, mean and deviation of three folds")
axis.legend()
plt.show()
