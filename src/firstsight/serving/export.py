"""A fitted model as an ONNX file: features and class descriptions in, scores out; new classes need no new export."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from firstsight.errors import BadInput
from firstsight.files import write_atomically
from firstsight.methods import ZeroShotClassifier, all_methods
from firstsight.methods.parts.description_kernel import SCALINGS, WIDTHS
from firstsight.methods.parts.ranking import BilinearRanking

OPSET = 17  # of 2022: what every ONNX Runtime that is still about can run


class Graph:
    """An ONNX graph on its way; a value is known by its name. `graph("MatMul", x, y)` adds a node."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def __call__(self, op: str, *values: str, **attributes: Any) -> str:
        from onnx import helper

        name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, values, [name], **attributes))
        return name

    def constant(self, values, dtype=np.float32) -> str:
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values, dtype=dtype), name))
        return name

    def linear(self, rows: str, weight, bias) -> str:
        return self("Add", self("MatMul", rows, self.constant(np.asarray(weight).T)), self.constant(bias))

    def two_layers(self, rows: str, weights, name: str) -> str:
        hidden = self("Relu", self.linear(rows, weights[f"{name}.0.weight"], weights[f"{name}.0.bias"]))
        return self.linear(hidden, weights[f"{name}.1.weight"], weights[f"{name}.1.bias"])

    def unit(self, rows: str) -> str:
        """Rows of length one; a row of zeros stays one."""
        norms = self("ReduceL2", rows, axes=[1], keepdims=1)
        none = self("Cast", self("Equal", norms, self.constant(0.0)), to=1)
        return self("Div", rows, self("Add", norms, none))

    def scaled(self, rows: str, kind: str | None, fitted) -> str:
        """What `methods.parts.scaling.scale` does."""
        if kind == "unit":
            return self.unit(rows)
        if kind == "standard":
            return self("Div", self("Sub", rows, self.constant(fitted["offset"])), self.constant(fitted["spread"]))
        return rows

    def products(self, rows: str, classes: str) -> str:
        return self("MatMul", rows, self("Transpose", classes, perm=[1, 0]))

    def closeness(self, rows: str, classes: str) -> str:
        """−‖row − class‖², multiplied out to one matrix product."""
        of_rows, of_classes = (
            self("ReduceSum", self("Mul", v, v), self.constant([1], np.int64), keepdims=1) for v in (rows, classes)
        )
        twice = self("Mul", self.products(rows, classes), self.constant(2.0))
        near = self("Sub", self("Sub", twice, of_rows), self("Transpose", of_classes, perm=[1, 0]))
        return self("Min", near, self.constant(0.0))


def _bilinear(g: Graph, model, X: str, A: str) -> str:
    return g.products(g("MatMul", X, g.constant(model.weights_)), A)


def _latem(g: Graph, model, X: str, A: str) -> str:
    return g("Max", *(g.products(g("MatMul", X, g.constant(W)), A) for W in model.weights_))


def _qfsl(g: Graph, model, X: str, A: str) -> str:
    return g.products(g.linear(X, model.weights_["weight"].T, model.weights_["bias"]), A)


def _sae(g: Graph, model, X: str, A: str) -> str:
    if model.direction == "semantic":
        return g.products(g.unit(g("MatMul", X, g.constant(model.weights_.T))), g.unit(A))
    return g.products(g.unit(X), g.unit(g("MatMul", A, g.constant(model.weights_))))


def _dem(g: Graph, model, X: str, A: str) -> str:
    embedded = g("Relu", g.two_layers(A, model.weights_, "embed"))
    return g.closeness(X, g("Add", embedded, g.constant(model.floor_)))


def _psr(g: Graph, model, X: str, A: str) -> str:
    return g.closeness(X, g.two_layers(A, model.weights_, "encode"))


def _deep_embedding(g: Graph, model, X: str, A: str) -> str:
    visual = g.linear(X, model.weights_["visual.weight"], model.weights_["visual.bias"])
    return g.closeness(g("Relu", visual), g("Relu", g.two_layers(A, model.weights_, "semantic")))


def _cosine(g: Graph, model, X: str, A: str) -> str:
    return g.products(g.unit(X), g.unit(A))


def _kernel_prototypes(g: Graph, model, X: str, A: str) -> str:
    size = g("Pow", g("Abs", X), g.constant(model.settings_["power"]))
    rows = g("Sub", g.unit(g("Mul", g("Sign", X), size)), g.constant(model.centre_))
    rows = g("MatMul", g.unit(g("MatMul", rows, g.constant(model.whitening_))), g.constant(model.directions_))
    means, seen = _class_means(g, model, A)
    near = g("Mul", g.closeness(g("Sub", rows, g.constant(model.offset_)), means), g.constant(0.5))
    return g("Sub", near, g("Transpose", g("Mul", seen, g.constant(model.settings_["seen_handicap"] * model.unit_))))


def _class_means(g: Graph, model, A: str) -> tuple[str, str]:
    """The mean (n, e) of each class, and whether (n, 1) it was seen; a known class is told by its description."""
    known, k = model.kernel_["descriptions"], len(model.seen_means_)
    foretold = g("MatMul", _description_kernel(g, model.kernel_, A), g.constant(model.weights_))
    gaps = g("Sub", g("Unsqueeze", A, g.constant([1], np.int64)), g.constant(known[None]))
    gaps = g("ReduceMax", g("Abs", gaps), axes=[2], keepdims=0)  # (n, known)
    same = g("Cast", g("LessOrEqual", gaps, g.constant(1e-6 * np.abs(known).max())), to=1)
    is_known = g("ReduceMax", same, axes=[1], keepdims=1)
    # Of classes with one description, no graph can say which is meant: it takes the middle.
    number = g("Max", g("ReduceSum", same, g.constant([1], np.int64), keepdims=1), g.constant(1.0))
    means = model.seen_means_ if len(known) == k else np.vstack([model.seen_means_, model.unseen_means_])
    own = g("MatMul", g("Div", same, number), g.constant(means))
    seen = g("MatMul", same, g.constant((np.arange(len(known)) < k).astype(float)[:, None]))
    means_of_all = g("Add", own, g("Mul", foretold, g("Sub", g.constant(1.0), is_known)))
    return means_of_all, g("Min", seen, g.constant(1.0))


def _description_kernel(g: Graph, fitted, A: str) -> str:
    """What `methods.parts.description_kernel.kernel` computes."""
    known = fitted["descriptions"].astype(np.float64)
    total = []
    for power, unit in zip(SCALINGS, fitted["units"], strict=True):
        mine, theirs = A, known
        if power is not None:
            spread = fitted["spread"] ** power
            mine = g("Div", g("Sub", A, g.constant(fitted["centre"])), g.constant(spread))
            theirs = (known - fitted["centre"]) / spread
        theirs = theirs / np.maximum(np.linalg.norm(theirs, axis=1, keepdims=True), 1e-12)
        near = g.closeness(g.unit(mine), g.constant(theirs))  # (n, k)
        total += [g("Exp", g("Mul", near, g.constant(width / unit))) for width in WIDTHS]
    return g("Mean", *total)


# By the name of the method's class. Each score needs the description alone: whether a class was seen, if it matters,
# is told by that.
SCORES: dict[str, Callable[[Graph, Any, str, str], str]] = {
    "ESZSL": _bilinear,
    "LatEm": _latem,
    "QFSL": _qfsl,
    "SAE": _sae,
    "DEM": _dem,
    "PSR": _psr,
    "DeepEmbedding": _deep_embedding,
    "TransductiveDeepEmbedding": _deep_embedding,
    "KernelPrototypes": _kernel_prototypes,
    "TransductiveKernelPrototypes": _kernel_prototypes,
    "Cosine": _cosine,
}


def exportable() -> list[str]:
    """The command-line words of the methods that `export_onnx` can write."""
    return [word for word, method in all_methods().items() if _score_of(method) is not None]


def export_onnx(model: ZeroShotClassifier, path: str | Path, attributes: list[str] | None = None) -> None:
    """Write `features (n, d)`, `descriptions (k, a)` → `scores (n, k)`, all float32; scaling is part of the file.

    The file's metadata hold the method, the classes, which of them were seen, and their descriptions, as JSON.
    """
    path = Path(path)
    if path.suffix != ".onnx":
        raise BadInput(f"The file must end in .onnx, but is called {path.name!r}; rename it.")
    score = _score_of(type(model))
    if score is None:
        raise BadInput(
            f"{type(model).__name__} cannot be exported, because its score is not a plain function of features and "
            f"description; these can: {', '.join(exportable())}."
        )
    try:
        from onnx import TensorProto, checker, helper
    except ImportError as error:
        raise BadInput("Exporting needs onnx; install it with pip install 'firstsight[onnx]'.") from error

    graph = Graph()
    X = graph.scaled("features", model.feature_scaling, model.feature_scaler_)
    A = graph.scaled("descriptions", model.attribute_scaling, model.attribute_scaler_)
    graph.nodes.append(helper.make_node("Identity", [score(graph, model, X, A)], ["scores"]))
    sizes = {
        "features": ["n", model.n_features_in_],
        "descriptions": ["k", model.class_attributes_.shape[1]],
        "scores": ["n", "k"],
    }
    features, descriptions, scores = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in sizes.items()
    )
    name = type(model).__name__
    body = helper.make_graph(graph.nodes, name, [features, descriptions], [scores], graph.constants)
    made = helper.make_model(body, producer_name="firstsight", opset_imports=[helper.make_opsetid("", OPSET)])
    made.ir_version = 8  # goes with the opset; newer runtimes read it, older ones do too
    about = {
        "method": name,
        "classes": model.classes_.tolist(),
        "seen": (model.seen_code_ >= 0).tolist(),
        "descriptions": model.class_attributes_.tolist(),
        "attributes": list(attributes or []),
    }
    for key, value in about.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        made.metadata_props.add(key=f"firstsight.{key}", value=text)
    checker.check_model(made)
    write_atomically(path, made.SerializeToString())


def _score_of(method: type) -> Callable[[Graph, Any, str, str], str] | None:
    if issubclass(method, BilinearRanking):
        return _bilinear
    return SCORES.get(method.__name__)
