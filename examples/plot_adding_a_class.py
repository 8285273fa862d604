"""
Adding a class
==============

A class is a row of numbers. It is added to a model, saved or not, in a moment, and nothing is trained.
"""

import tempfile

import matplotlib.pyplot as plt

import firstsight

data = firstsight.load_dataset("glyphs")
letters = firstsight.fit("gfzsl", data)

# %%
# Take five letters away: the model cannot answer with them any more.
names = ["ñ", "ó", "č", "Š", "ź"]
table = data.descriptions.loc[names]
letters.remove_classes(names)
rows = [int(data.test_unseen[data.y[data.test_unseen] == name][0]) for name in names]
before = letters.predict(data.features[rows]).best

# %%
# Describe them, and add them back; here to a model in a folder, as a service would do it.
with tempfile.TemporaryDirectory() as folder:
    letters.save(f"{folder}/model")
    with firstsight.Recognizer.changing(f"{folder}/model") as changed:
        changed.add_classes(table)
    after = firstsight.Recognizer.load(f"{folder}/model").predict(data.features[rows]).best

# %%
# Without a letter's description, the model takes the nearest other one. A letter that is hard to tell from a seen one
# may still go wrong afterwards: models are biased towards seen classes.
figure, axes = plt.subplots(1, len(names), figsize=(8, 2.2), layout="constrained")
for axis, row, old, new in zip(axes, rows, before, after, strict=True):
    axis.imshow(data.images[row], cmap="gray_r")
    axis.set_title(f"before: {old}\nafter: {new}", fontsize=14)
    axis.axis("off")
plt.show()
