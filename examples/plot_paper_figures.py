"""
The paper's Figures 1, 3 and 4
==============================

Drawn from this project's records of CUB (200 kinds of birds): nothing is fitted here. ``firstsight benchmark`` made
the records, ``firstsight report results`` puts the same figures on a page.
"""

from io import BytesIO
from pathlib import Path

import matplotlib.pyplot as plt

from firstsight.reporting.charts import rounds_chart, study_chart
from firstsight.reporting.embedding_maps import map_figure, read_map
from firstsight.reporting.figure_style import png_of
from firstsight.reporting.results import read_results

RECORDS = next(folder for folder in (Path("results"), Path("../results")) if folder.is_dir())
results = read_results(RECORDS)


def show(picture):
    """A figure of the report, on the screen."""
    image = plt.imread(BytesIO(png_of(picture)))
    figure = plt.figure(figsize=(image.shape[1] / 130, image.shape[0] / 130), dpi=130)
    axis = figure.add_axes((0, 0, 1, 1))
    axis.imshow(image)
    axis.axis("off")
    plt.show()


# %%
# Figure 1: samples (dots) and descriptions (squares) in visual, inductive and transductive space. In the visual space
# there are no descriptions; in the transductive one, unseen classes have come to their descriptions.
show(map_figure("CUB", read_map(RECORDS / "maps" / "CUB.npz")))

# %%
# Figure 3: accuracy of each round of pseudo-labels, and how many pseudo-labels were right.
show(rounds_chart(results, "CUB"))

# %%
# Figure 4: sensitivity to λ, the weight of the term that keeps classes apart. At λ = 0 the embedding collapses
# (:ref:`sphx_glr_gallery_plot_collapse.py` shows why).
show(study_chart(results, "CUB", "separation"))
