"""
A method of your own in forty lines
===================================

Write ``_fit`` and ``_scores``; labels, checks, scaling, new classes, saving and scikit-learn's habits are there
already. :doc:`/own_method` explains every line.
"""

# %%
# The whole method, in a file of its own (``ridge_to_attributes.py``):
#
# .. literalinclude:: ../../examples/ridge_to_attributes.py
#    :language: python

import matplotlib.pyplot as plt
import numpy as np
from ridge_to_attributes import RidgeToAttributes

import firstsight
from firstsight.contract import check_method

# %%
# Does it keep its promises? The contract tries dozens of things; the first broken one would be named in a sentence.
print(len(check_method(RidgeToAttributes)), "promises kept")

# %%
# How good is it, beside methods that are there already?
data = firstsight.load_dataset("glyphs")
entries = {"own method": RidgeToAttributes(), "eszsl": firstsight.ESZSL(), "gfzsl": firstsight.GFZSL()}
figures = {name: firstsight.evaluate(method, data) for name, method in entries.items()}

figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
for offset, (title, figure_of) in enumerate({"T1": lambda r: r.t1, "H": lambda r: r.h}.items()):
    places = np.arange(len(figures)) + 0.4 * offset - 0.2
    bars = axis.bar(places, [100 * figure_of(result) for result in figures.values()], 0.38, label=title)
    axis.bar_label(bars, fmt="%.0f")
axis.set(xticks=range(len(figures)), xticklabels=list(figures), ylabel="%", ylim=(0, 100))
axis.legend()
plt.show()
