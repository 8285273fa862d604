"""
A pipeline: scale, reduce, recognise
====================================

A method is the last step of a scikit-learn pipeline like any classifier. The pipeline is evaluated and saved as a
whole.
"""

import tempfile
import time

import matplotlib.pyplot as plt
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import firstsight

data = firstsight.load_dataset("glyphs")
X, y = data.part("train")

# %%
# Keyword arguments of ``fit`` reach a step by its name, as everywhere in scikit-learn.
model = make_pipeline(StandardScaler(), PCA(100, random_state=0), firstsight.ESZSL(feature_penalty=100.0))
model.fit(X, y, eszsl__descriptions=data.descriptions)
with tempfile.TemporaryDirectory() as folder:
    firstsight.save(model, f"{folder}/model")  # no pickle
    again = firstsight.load_pipeline(f"{folder}/model")
unseen, truth = data.part("test_unseen")
assert (again.predict(unseen) == model.predict(unseen)).all()

# %%
# How many components are enough?
sizes, accuracy, seconds = [10, 20, 40, 80, 160, 320], [], []
for size in sizes:
    pipeline = make_pipeline(StandardScaler(), PCA(size, random_state=0), firstsight.ESZSL(feature_penalty=100.0))
    start = time.process_time()
    accuracy.append(100 * firstsight.evaluate(pipeline, data, settings=["zsl"]).t1)
    seconds.append(time.process_time() - start)

figure, axis = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
axis.plot(sizes, accuracy, "o-")
axis.set(xscale="log", xticks=sizes, xticklabels=sizes, xlabel="components of PCA (of 512 features)", ylabel="T1, %")
axis.minorticks_off()
plt.show()
