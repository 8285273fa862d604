"""A fitted model as an ONNX file: features and class descriptions in, scores out; new classes need no new export."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from firstsight._io.files import write_atomically
from firstsight.errors import BadInput
from firstsight.methods import ZeroShotClassifier, all_methods

OPSET = 17  # of 2022: what every ONNX Runtime in use can run
_FLOAT, _INT64, _DOUBLE = 1, 7, 11  # ONNX's numbers of types
SEEN_CODE = "seen_code"


class Graph:
    """An ONNX graph on its way; a value is known by its name. `graph("MatMul", x, y)` adds a node.

    Methods write their scores into it (`ZeroShotClassifier._export_scores`).
    """

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def __call__(self, op: str, *values: str, outputs: int = 1, **attributes: Any) -> str:
        """The name of the first of a node's outputs; `outputs` says how many there must be."""
        from onnx import helper

        names = [f"{op.lower()}_{len(self.nodes)}" + "_more" * number for number in range(outputs)]
        self.nodes.append(helper.make_node(op, values, names, **attributes))
        return names[0]

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(values, dtype=dtype, order="C"), name))
        return name

    def double(self, value: Any) -> str:
        """A value of the graph, or a constant, in double precision: for sums in which large terms cancel."""
        return self("Cast", value, to=_DOUBLE) if isinstance(value, str) else self.constant(value, np.float64)

    def single(self, value: str) -> str:
        return self("Cast", value, to=_FLOAT)

    def transposed(self, value: str) -> str:
        return self("Transpose", value, perm=[1, 0])

    def row_sums(self, value: str) -> str:
        return self("ReduceSum", value, self.constant([1], np.int64), keepdims=1)

    def linear(self, rows: str, weight: np.ndarray, bias: np.ndarray) -> str:
        """Wx + b of each row, `weight (outputs, inputs)`."""
        return self("Add", self("MatMul", rows, self.constant(np.asarray(weight).T)), self.constant(bias))

    def two_layers(self, rows: str, weights: dict[str, np.ndarray], name: str, activation: str = "Relu") -> str:
        """As `methods._gradient_training.two_layers`."""
        hidden = self(activation, self.linear(rows, weights[f"{name}.0.weight"], weights[f"{name}.0.bias"]))
        return self.linear(hidden, weights[f"{name}.1.weight"], weights[f"{name}.1.bias"])

    def unit(self, rows: str) -> str:
        """Rows of length one; a row of zeros stays one."""
        norms = self("ReduceL2", rows, axes=[1], keepdims=1)
        none = self.single(self("Equal", norms, self.constant(0.0)))
        return self("Div", rows, self("Add", norms, none))

    def scaled(self, rows: str, kind: str | None, fitted: dict[str, np.ndarray]) -> str:
        """As `methods.base.scale`."""
        if kind == "unit":
            return self.unit(rows)
        if kind == "standard":
            return self("Div", self("Sub", rows, self.constant(fitted["offset"])), self.constant(fitted["spread"]))
        return rows

    def products(self, rows: str, classes: str) -> str:
        """The dot product of each row and each class (n, k)."""
        return self("MatMul", rows, self.transposed(classes))

    def bilinear(self, rows: str, weights: np.ndarray, classes: str) -> str:
        return self.products(self("MatMul", rows, self.constant(weights)), classes)

    def closeness(self, rows: str, classes: str) -> str:
        """−‖row − class‖² (n, k), multiplied out to one matrix product."""
        of_rows, of_classes = (self.row_sums(self("Mul", v, v)) for v in (rows, classes))
        crossed = self.products(rows, classes)
        squares = self("Add", of_rows, self.transposed(of_classes))
        return self("Neg", self("Relu", self("Sub", squares, self("Add", crossed, crossed))))


def exportable() -> list[str]:
    """The names of the methods that `export_onnx` can write."""
    return [name for name, method in all_methods().items() if method.is_exportable()]


def export_onnx(model: ZeroShotClassifier, path: str | Path, *, confidence: bool = False) -> None:
    """Write `features (n, d)`, `descriptions (k, a)` → `scores (n, k)`, all float32; scaling is part of the file.

    With `confidence`, a second output `confidence (n, k)` is what `predict_proba` answers; the model must have been
    calibrated. With confidence, and for methods that know their training classes from others, there is a third input
    `seen_code (k,)` (int64): the code of each candidate in `model.seen_code_`, −1 for a class that training has not
    seen, such as one that was added later.
    The file's metadata hold the method, the classes, their codes, their descriptions and the names of the attributes,
    as JSON.
    """
    path = Path(path)
    if path.suffix != ".onnx":
        raise BadInput(f"The file must end in .onnx, but is called {path.name!r}; rename it.")
    if confidence:
        _ = model.predict_proba  # raises an error if the model is not calibrated
    try:
        import onnx
    except ImportError as error:
        raise BadInput("Exporting needs onnx; install it with pip install 'firstsight[onnx]'.") from error
    graph = Graph()
    try:
        outputs = _write(graph, model, confidence)
    except NotImplementedError as reason:
        raise BadInput(
            f"{type(model).__name__} cannot be exported, because {reason}; these can: {', '.join(exportable())}."
        ) from None
    file = _build_file(graph, model, outputs)
    onnx.checker.check_model(file)
    write_atomically(path, file.SerializeToString())


def _write(graph: Graph, model: ZeroShotClassifier, confidence: bool) -> dict[str, str]:
    """Outputs of the file by name."""
    X = graph.scaled("features", model.feature_scaling, model.feature_scaler_)
    scores = _scores(graph, model, X, "descriptions", SEEN_CODE)
    return {"scores": scores, **({"confidence": _confidence(graph, model, X, scores)} if confidence else {})}


def _scores(graph: Graph, model: ZeroShotClassifier, X: str, descriptions: str, seen: str) -> str:
    A = graph.scaled(descriptions, model.attribute_scaling, model.attribute_scaler_)
    return model.export_scores(graph, X, A, seen)


def _confidence(graph: Graph, model: ZeroShotClassifier, X: str, scores: str) -> str:
    """What `Calibration.confidence` does, for candidates that are all unseen, all seen, or of both kinds."""
    calibration = model.calibration_
    spread = graph.double(calibration.spread)
    # As `reference_scores`: of seen classes' descriptions, but as if training had not seen them.
    unseen = graph.constant(np.full(len(calibration.reference), -1), np.int64)
    reference = graph.double(_scores(graph, model, X, graph.constant(calibration.reference), unseen))
    reference = graph("Div", reference, spread)
    off = graph("Sub", reference, graph("ReduceMean", reference, axes=[1], keepdims=1))
    row_spread = graph("Sqrt", graph("ReduceMean", graph("Mul", off, off), axes=[1], keepdims=1))
    row_spread = graph("Max", row_spread, graph.double(1e-6))  # as `evaluation.calibration.floored`

    kinds = [calibration.scale_for(np.array(seen)) for seen in ([False], [True], [False, True])]
    numbers = [[scale.temperature, scale.row_power, scale.guess_rate] for scale in kinds]
    size = graph("Size", SEEN_CODE)
    unseen_only, seen_only, both = (graph.constant(number, np.int64) for number in range(3))
    is_seen = graph("Not", graph("Less", SEEN_CODE, unseen_only))
    count = graph("ReduceSum", graph("Cast", is_seen, to=_INT64), keepdims=0)
    kind = graph("Where", graph("Equal", count, size), seen_only, both)
    kind = graph("Where", graph("Equal", count, unseen_only), unseen_only, kind)
    chosen = graph("Gather", graph.double(numbers), kind, axis=0)
    temperature, power, guesses = (
        graph("Gather", chosen, graph.constant(column, np.int64), axis=0) for column in range(3)
    )
    t = graph("Mul", graph("Mul", temperature, spread), graph("Pow", row_spread, power))  # (n, 1)
    sure = graph("Softmax", graph("Div", graph.double(scores), t), axis=1)
    guess = graph("Div", guesses, graph.double(size))
    return graph.single(graph("Add", graph("Mul", sure, graph("Sub", graph.double(1.0), guesses)), guess))


def _build_file(graph: Graph, model: ZeroShotClassifier, outputs: dict[str, str]) -> Any:
    from onnx import helper

    inputs: dict[str, tuple[int, list[Any]]] = {
        "features": (_FLOAT, ["n", model.n_features_in_]),
        "descriptions": (_FLOAT, ["k", model.descriptions_.shape[1]]),
    }
    if any(SEEN_CODE in node.input for node in graph.nodes):
        inputs[SEEN_CODE] = (_INT64, ["k"])
    for name, value in outputs.items():
        graph.nodes.append(helper.make_node("Identity", [value], [name]))
    name = type(model).__name__
    body = helper.make_graph(
        graph.nodes,
        name,
        [helper.make_tensor_value_info(name, *kind) for name, kind in inputs.items()],
        [helper.make_tensor_value_info(name, _FLOAT, ["n", "k"]) for name in outputs],
        graph.constants,
    )
    file = helper.make_model(body, producer_name="firstsight", opset_imports=[helper.make_opsetid("", OPSET)])
    file.ir_version = 8  # goes with the opset; newer runtimes read it, older ones do too
    metadata = {
        "method": name,
        "classes": model.classes_.tolist(),
        "seen_code": model.seen_code_.tolist(),
        "descriptions": model.descriptions_.tolist(),
        "attributes": model.attribute_names_in_.tolist() if hasattr(model, "attribute_names_in_") else [],
    }
    for key, value in metadata.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        file.metadata_props.add(key=f"firstsight.{key}", value=text)
    return file


def join_graphs(backbone: Path, model: Path) -> Any:
    """Join the graph of a backbone and that of a model, which takes its `features`; the newer operator set is used."""
    import onnx
    from onnx import compose, version_converter

    graphs = [onnx.load(backbone), onnx.load(model)]
    metadata = [(prop.key, prop.value) for prop in graphs[1].metadata_props]
    opsets = [
        next(entry.version for entry in graph.opset_import if entry.domain in ("", "ai.onnx")) for graph in graphs
    ]
    graphs = [
        graph if opset == max(opsets) else version_converter.convert_version(graph, max(opsets))
        for graph, opset in zip(graphs, opsets, strict=True)
    ]
    ir_version = max(graph.ir_version for graph in graphs)
    for graph in graphs:
        graph.ir_version = ir_version
        del graph.metadata_props[:]
    first, second = graphs
    # Inner names of both graphs may be the same; inputs and outputs keep their names.
    first = compose.add_prefix(first, "backbone/", rename_inputs=False, rename_outputs=False)
    joined = compose.merge_models(first, second, io_map=[("features", "features")])
    for key, value in metadata:
        joined.metadata_props.add(key=key, value=value)
    joined.producer_name = "firstsight"
    return joined
