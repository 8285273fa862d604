"""
ONNX: take the model elsewhere
==============================

``firstsight export`` writes a file that ONNX Runtime reads, on a phone, in a browser or from another language.
Descriptions are an input: new classes need no new export.
"""

import tempfile

import matplotlib.pyplot as plt
import numpy as np
import onnxruntime

import firstsight

data = firstsight.load_dataset("glyphs")
letters = firstsight.fit("eszsl", data)
with tempfile.TemporaryDirectory() as folder:
    letters.export_onnx(f"{folder}/model.onnx")
    session = onnxruntime.InferenceSession(f"{folder}/model.onnx")
print([f"{one.name} {one.shape}" for one in (*session.get_inputs(), *session.get_outputs())])

# %%
# The same scores, up to rounding.
X, truth = data.part("test_unseen")
table = data.descriptions.loc[data.unseen_classes].to_numpy(dtype=np.float32)
(scores,) = session.run(None, {"features": X, "descriptions": table})
ours = letters.model.decision_function(X, classes=data.unseen_classes)
print(f"largest difference {np.abs(scores - ours).max():.1e}")

figure, axis = plt.subplots(figsize=(4.2, 3.8), layout="constrained")
axis.plot(ours[:200].ravel(), scores[:200].ravel(), ".", markersize=2)
axis.set(xlabel="score of firstsight", ylabel="score of ONNX Runtime", title="200 letters × 40 candidates")
axis.locator_params(nbins=5)
plt.show()
