"""firstsight: recognise classes nobody has labelled, from their descriptions.

>>> import firstsight
>>> data = firstsight.load_dataset("glyphs")                                  # doctest: +SKIP
>>> model = firstsight.DeepEmbedding().fit(*data.part("train"), data.descriptions)  # doctest: +SKIP
"""

from __future__ import annotations

from importlib.metadata import version

import lazy_loader

__version__ = version("firstsight")

# The public names and their homes stand in __init__.pyi, which type checkers read as well. They are imported when first
# asked for: `import firstsight` must not wait for torch.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
