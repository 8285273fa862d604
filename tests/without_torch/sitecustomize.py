"""Python imports this at its start: neither torch nor its metadata is found afterwards, as if it were not installed."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder


class _WithoutTorch(PathFinder):
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        return None if fullname == "torch" else super().find_spec(fullname, path, target)

    @classmethod
    def find_distributions(cls, context):
        return [] if context.name == "torch" else super().find_distributions(context)


sys.meta_path[sys.meta_path.index(PathFinder)] = _WithoutTorch
