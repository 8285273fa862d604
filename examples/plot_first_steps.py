"""
First steps
===========

Learn 133 accented letters from labelled pictures, then name 40 that were never shown.
"""

import matplotlib.pyplot as plt

import firstsight

data = firstsight.load_dataset("glyphs")
X, y = data.part("train")
print(f"{len(X)} pictures of {len(data.seen_classes)} seen letters; {len(data.unseen_classes)} letters are unseen")

# %%
# Every letter has a description: which base letter, which mark. Those of the unseen letters are all that the model
# ever learns about them.
ones = data.descriptions.loc["ń"]
print("ń is described by:", ", ".join(ones.index[ones > 0]))

# %%
# A method is a scikit-learn classifier whose ``fit`` also takes descriptions. The default one is ``KernelPrototypes``;
# with ``search=False`` it takes its usual settings, and seconds.
model = firstsight.KernelPrototypes(search=False).fit(X, y, data.descriptions)

# %%
# Name some pictures of unseen letters, among the unseen ones.
rows = data.test_unseen[::107][:24]
names = model.predict(data.features[rows], classes=data.unseen_classes)

figure, axes = plt.subplots(3, 8, figsize=(8, 3.8), layout="constrained")
for axis, row, name in zip(axes.flat, rows, names, strict=True):
    axis.imshow(data.images[row], cmap="gray_r")
    axis.set_title(name, color="#1a7f37" if name == data.y[row] else "#cf222e")
    axis.axis("off")
figure.suptitle("Letters that were never shown; green: named right")
plt.show()

# %%
# T1 is the share that is named right among the unseen letters, H what is left when all letters are candidates.
print(firstsight.evaluate(firstsight.KernelPrototypes(search=False), data))
