"""
The bias towards seen classes, and three cures
==============================================

When all classes are candidates, classes with training pictures win too often. Here is how much that costs, and what
helps.
"""

import matplotlib.pyplot as plt

import firstsight
from firstsight.evaluation import harmonic_mean, mean_class_accuracy

data = firstsight.load_dataset("glyphs")
X, y = data.part("train")
seen, seen_truth = data.part("test_seen")
unseen, unseen_truth = data.part("test_unseen")


def share_right(answers_of):
    """Mean per-class accuracy on unseen and on seen letters."""
    return mean_class_accuracy(unseen_truth, answers_of(unseen)), mean_class_accuracy(seen_truth, answers_of(seen))


# %%
# No cure: GFZSL, all 173 letters are candidates.
letters = firstsight.fit("gfzsl", data, confidence=True)
shares = {"no cure": share_right(letters.model.predict)}

# %%
# Cure 1: a constant off the scores of seen letters, chosen on training letters that were held out.
# ``confidence=True`` has measured it.
shares["a constant from\nheld-out letters"] = share_right(
    lambda rows: letters.predict(rows, shift_seen=True, reject_far=False).best
)

# %%
# Cure 2: learn from the rows to be named, without their labels (a transductive method).
pooled = firstsight.TransductiveKernelPrototypes(search=False).fit(
    X, y, data.descriptions, X_unlabeled=data.features[sorted([*data.test_seen, *data.test_unseen])]
)
shares["unlabelled rows\n(transductive)"] = share_right(pooled.predict)

# %%
# Cure 3: know which pictures show something new, and say so. (Who knows that has an easier task: it is no longer H
# that is measured.)
shares["told which\nare unseen"] = (
    mean_class_accuracy(unseen_truth, letters.model.predict(unseen, classes=data.unseen_classes)),
    mean_class_accuracy(seen_truth, letters.model.predict(seen, classes=data.seen_classes)),
)

figure, axis = plt.subplots(figsize=(8, 3.6), layout="constrained")
for number, (ts, tr) in enumerate(shares.values()):
    axis.bar(number - 0.2, 100 * ts, 0.38, color="#d1783c", label="unseen letters (ts)" if number == 0 else None)
    axis.bar(number + 0.2, 100 * tr, 0.38, color="#4878a8", label="seen letters (tr)" if number == 0 else None)
    axis.text(number, 100 * max(ts, tr) + 2, f"H {100 * harmonic_mean(ts, tr):.0f}", ha="center")
axis.set(xticks=range(len(shares)), xticklabels=list(shares), ylabel="named right, %", ylim=(0, 112))
axis.legend(loc="upper left", ncols=2)
plt.show()
