"""
What confidence means
=====================

Of answers that come with a confidence of 70 %, about 70 % should be right. A reliability plot shows how far that
holds, on letters that neither the model nor its calibration has seen.
"""

import matplotlib.pyplot as plt

import firstsight
from firstsight.evaluation.calibration import reliability

data = firstsight.load_dataset("glyphs")
letters = firstsight.fit("gfzsl", data, confidence=True)
X, truth = data.part("test_unseen")
answers = letters.predict(X, classes="unseen", reject_far=False)
confidence, right = answers.confidence[:, 0], answers.classes[:, 0] == truth
found = reliability(confidence, right)

# %%
# Estimate and truth: what calibration foresaw from training letters alone, and what came.
print(f"expected T1 {letters.model.calibration_.estimate['t1']:.3f}, measured {right.mean():.3f}")

figure, (upper, lower) = plt.subplots(2, 1, figsize=(5, 5.2), height_ratios=[3, 1], sharex=True, layout="constrained")
filled = found.share > 0
upper.plot([0, 1], [0, 1], "--", color="gray", label="ideal")
upper.plot(found.confidence[filled], found.accuracy[filled], "o-", label="measured")
upper.set(ylabel="share of answers that are right", title=f"expected calibration error {found.ece:.3f}")
upper.legend()
lower.bar(
    [(i + 0.5) / len(found.share) for i in range(len(found.share))], found.share, 1 / len(found.share), color="gray"
)
lower.set(xlabel="confidence", ylabel="share of rows", xlim=(0, 1))
plt.show()
