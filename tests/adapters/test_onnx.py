"""Tests of ONNX networks against onnxruntime: certain inputs give equal outputs, uncertain inputs the standard deviations of
8,192 points. Affine operators and activations have a closed form; other operators use points or raise."""

import logging
from itertools import pairwise

import numpy as np
import pytest

import pesn

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
h, F, nh = onnx.helper, onnx.TensorProto.FLOAT, onnx.numpy_helper


from pesn.adapters.onnx import read  # noqa: E402

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.normal(size=shape) / np.sqrt(shape[-1])


def model(nodes, constants=None, shape=(4,), inputs=None, outputs=("y",), opset=20, batch="N", dtype=F):
    """Build a model of nodes ("Op", inputs, outputs, attributes); by default with one input x of ``shape``."""
    inputs = inputs or {"x": shape}
    made = []
    for kind, given, made_of, *said in nodes:
        extra = dict(said[0]) if said else {}
        made.append(h.make_node(kind, given.split(), made_of.split(), **extra))
    ins = [h.make_tensor_value_info(name, dtype, [batch, *sizes]) for name, sizes in inputs.items()]
    outs = [h.make_tensor_value_info(name, dtype, None) for name in outputs]
    weights = [nh.from_array(_stored(value), name) for name, value in (constants or {}).items()]
    opsets = [h.make_opsetid("", opset), h.make_opsetid("ai.onnx.ml", 3)]
    return h.make_model(h.make_graph(made, "net", ins, outs, weights), opset_imports=opsets, ir_version=9)


def _stored(value):
    value = np.asarray(value)
    return value.astype(np.float32) if value.dtype.kind == "f" else value


def uncertain(program, seed=1, size=0.3):
    count = sum(map(_size, program.graph.input))
    rng = np.random.default_rng(seed)
    root = size * rng.normal(size=(count, count)) / np.sqrt(count)
    return pesn.Gaussian(rng.normal(size=count), cov=root @ root.T + 0.01 * np.eye(count))


def _size(one):
    return int(np.prod([d.dim_value for d in one.type.tensor_type.shape.dim[1:]]))


def itself(program, x):
    """Return a function that runs rows through onnxruntime."""
    session = onnxruntime.InferenceSession(program.SerializeToString(), providers=["CPUExecutionProvider"])
    shapes = {one.name: [d.dim_value for d in one.type.tensor_type.shape.dim[1:]] for one in program.graph.input}

    def function(rows):
        ends = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes.values())])
        parts = np.split(rows.astype(np.float32), ends[1:-1], axis=1)
        feeds = {name: part.reshape(-1, *shape) for part, (name, shape) in zip(parts, shapes.items(), strict=True)}
        return np.concatenate([out.reshape(len(rows), -1) for out in session.run(None, feeds)], axis=1)

    return function


def pool(**said):
    return model([("AveragePool", "x", "y", {"kernel_shape": [2, 2], **said})], shape=IMAGE)


IMAGE = (2, 5, 4)
FEW = {"W": normal(4, 6), "V": normal(6, 2)}
LATER = [
    (kind, {})
    for kind, name in (("HardSwish", "hard_swish"), ("Mish", "mish"), ("Softsign", "softsign"))
    if name in pesn.activations.names()
]
OPERATORS = {
    "Gemm": model([("Gemm", "x W b", "y", {"transB": 1, "alpha": 0.5, "beta": 2.0})], {"W": normal(3, 4), "b": normal(3)}),
    "MatMul": model([("MatMul", "x W", "y")], {"W": normal(4, 3)}),
    "Add": model([("Add", "x b", "y")], {"b": normal(4)}),
    "Add, both": model([("Tanh", "x", "h"), ("Add", "h x", "y")]),
    "Sub": model([("Sub", "b x", "y")], {"b": normal(4)}),
    "Mul": model([("Mul", "b x", "y")], {"b": normal(4)}),
    "Mul, both": model([("MatMul", "x W", "h"), ("Mul", "h x", "y")], {"W": normal(4, 4)}),
    "Mul, gated channels": model(
        [("GlobalAveragePool", "x", "g"), ("Mul", "x g", "y")], shape=IMAGE
    ),
    "Div": model([("Div", "x b", "y")], {"b": 2.0 + normal(4) ** 2}),
    "Neg": model([("Neg", "x", "y")]),
    "Pow": model([("Pow", "x two", "y")], {"two": np.array(2.0)}),
    "Conv": model(
        [("Conv", "x W b", "y", {"pads": [1, 0, 1, 0], "strides": [2, 1]})], {"W": normal(3, 2, 3, 3), "b": normal(3)}, IMAGE
    ),
    "AveragePool": pool(strides=[2, 1], pads=[1, 0, 0, 1]),
    "GlobalAveragePool": model([("GlobalAveragePool", "x", "y")], shape=IMAGE),
    "BatchNormalization": model(
        [("BatchNormalization", "x s b m v", "y")],
        {"s": normal(2), "b": normal(2), "m": normal(2), "v": 1.0 + normal(2) ** 2},
        IMAGE,
    ),
    "Flatten": model([("Flatten", "x", "f"), ("MatMul", "f W", "y")], {"W": normal(40, 3)}, IMAGE),
    "Reshape": model([("Reshape", "x s", "r"), ("MatMul", "r W", "y")], {"s": np.array([-1, 8, 5]), "W": normal(5, 2)}, IMAGE),
    "Reshape, of the shape": model(
        [("Shape", "x", "n"), ("Gather", "n zero", "k"), ("Concat", "k rest", "s", {"axis": 0}), ("Reshape", "x s", "y")],
        {"zero": np.array([0]), "rest": np.array([-1])},
        IMAGE,
    ),
    "Transpose": model([("Transpose", "x", "t", {"perm": [0, 3, 1, 2]}), ("MatMul", "t W", "y")], {"W": normal(5, 2)}, IMAGE),
    "Concat": model([("Tanh", "x", "h"), ("Concat", "h x c", "y", {"axis": 1})], {"c": np.ones((1, 2))}, batch=1),
    "Gather": model([("Gather", "x i", "y", {"axis": 1})], {"i": np.array([3, 0, 0])}),
    "Identity": model([("Identity", "x", "y")]),
    "Dropout": model([("Dropout", "x", "y"), ], opset=13),
    "Cast": model([("Cast", "x", "d", {"to": onnx.TensorProto.DOUBLE}), ("Cast", "d", "y", {"to": F})]),
    "ReduceMean": model([("ReduceMean", "x i", "y", {"keepdims": 0})], {"i": np.array([2, 3])}, IMAGE),
    "Pad": model([("Pad", "x p c", "y")], {"p": np.array([0, 0, 1, 0, 0, 0, 0, 2]), "c": np.array(0.5)}, IMAGE),
    "Where": model([("Where", "c x b", "y")], {"c": np.array([True, False, True, True]), "b": normal(4)}),
    "PRelu": model([("PRelu", "x s", "y")], {"s": np.array([0.3])}),
    "Max of two": model([("Neg", "x", "n"), ("Max", "x n", "y")]),
    "ConvTranspose": model([("ConvTranspose", "x W", "y", {"strides": [2, 1]})], {"W": normal(2, 3, 3, 2)}, (2, 3, 2)),
    "Max": model([("Max", "x c", "y")], {"c": np.array(0.2)}),
    "Clip": model([("Clip", "x a b", "y")], {"a": np.array(-0.5), "b": np.array(0.7)}),
    "Clip, below": model([("Clip", "x a", "y")], {"a": np.array(-0.5)}),
    "SiLU written out": model([("Sigmoid", "x", "s"), ("Mul", "x s", "y")]),
    "GELU written out": model(
        [("Div", "x r", "d"), ("Erf", "d", "e"), ("Add", "e one", "a"), ("Mul", "x a", "m"), ("Mul", "m half", "y")],
        {"r": np.array(np.sqrt(2.0)), "one": np.array(1.0), "half": np.array(0.5)},
    ),
    "sigmoid written out": model(
        [("Neg", "x", "n"), ("Exp", "n", "e"), ("Add", "e one", "a"), ("Reciprocal", "a", "y")], {"one": np.array(1.0)}
    ),
    "softplus with a threshold": model(
        [("Softplus", "x", "s"), ("Greater", "x top", "g"), ("Where", "g x s", "y")], {"top": np.array(20.0)}
    ),
    "quick GELU": model([("Mul", "x b", "m"), ("Sigmoid", "m", "s"), ("Mul", "s x", "y")], {"b": np.array(1.702)}),
    "two inputs": model(
        [("MatMul", "x W", "a"), ("Tanh", "z", "b"), ("Add", "a b", "y")], {"W": normal(4, 3)}, inputs={"x": (4,), "z": (3,)}
    ),
    "two outputs": model([("Tanh", "x", "y"), ("Neg", "x", "w")], outputs=("y", "w")),
    "fixed batch": model([("Reshape", "x s", "r"), ("Gemm", "r V", "y")], {**FEW, "s": np.array([2, 6])}, (2, 3), batch=2),
    **{
        f"unit {kind}": model([("Gemm", "x W", "z"), (kind, "z", "h", said), ("MatMul", "h V", "y")], FEW)
        for kind, said in [
            ("Tanh", {}), ("Sigmoid", {}), ("Relu", {}), ("Softplus", {}), ("Erf", {}), ("Sin", {}),
            ("LeakyRelu", {"alpha": 0.2}), ("Elu", {"alpha": 0.7}), ("Selu", {}), ("Celu", {"alpha": 0.5}),
            ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}), ("Gelu", {}), ("Abs", {}), *LATER,
        ]
    },
}  # fmt: skip


def ml(kind, **said):
    node = h.make_node(kind, ["x", *(["i"] if kind == "ArrayFeatureExtractor" else [])], ["y"], domain="ai.onnx.ml", **said)
    whole = model([], {"i": np.array([2, 0])})
    whole.graph.node.append(node)
    return whole


OPERATORS |= {
    "ml: Scaler": ml("Scaler", offset=[1.0, 2.0, 3.0, 4.0], scale=[0.5, 2.0, 1.0, 0.1]),
    "ml: LinearRegressor": ml(
        "LinearRegressor", coefficients=[1.0, 2.0, -1.0, 0.5, 0.1, 0.2, 0.3, 0.4], intercepts=[3.0, -1.0], targets=2
    ),
    "ml: Imputer": ml("Imputer", imputed_value_floats=[1.0], replaced_value_float=float("nan")),
}


@pytest.mark.parametrize("kind", OPERATORS)
def test_closed_form_of_an_operator_agrees_with_onnxruntime(kind):
    program = OPERATORS[kind]
    x = uncertain(program)
    function = itself(program, x) if kind != "fixed batch" else None
    certain = pesn.propagate(program, pesn.Gaussian(x.mean), closure="gaussian")
    if function is not None:
        np.testing.assert_allclose(certain.mean, function(x.mean[None])[0], rtol=1e-4, atol=1e-5)
    assert not certain.var.any()
    found = pesn.propagate(program, x, closure="gaussian")
    assert found.closure == "gaussian"
    assert found.error == 0.0
    points = pesn.propagate(program, x, closure="sobol", n_samples=2**14)
    scale = points.std.max()
    assert np.all(np.abs(found.std - points.std) <= 0.02 * points.std + 1e-2 * scale)
    assert np.all(np.abs(found.mean - points.mean) <= 0.02 * scale)


# ---------------------------------------------------------------- whole networks


def dense(*sizes, seed=0):
    rng = np.random.default_rng(seed)
    nodes, constants, layers, before = [], {}, [], "x"
    for i, (a, b) in enumerate(pairwise(sizes)):
        W, bias = rng.normal(size=(b, a)).astype(np.float32) / np.float32(np.sqrt(a)), rng.normal(size=b).astype(np.float32)
        constants |= {f"W{i}": W, f"b{i}": bias}
        layers.append(pesn.Dense(W, bias, "identity" if i == len(sizes) - 2 else "tanh"))
        last = i == len(sizes) - 2
        nodes.append(("Gemm", f"{before} W{i} b{i}", "y" if last else f"z{i}", {"transB": 1}))
        if not last:
            nodes.append(("Tanh", f"z{i}", f"h{i}"))
        before = f"h{i}"
    return model(nodes, constants, (sizes[0],)), layers


def test_dense_layers_are_read_as_a_chain():
    program, layers = dense(25, 12, 10, 2)
    x = uncertain(program)
    read_ = read(program, x, ((25,),)).layers
    assert [str(layer) for layer in read_] == [str(layer) for layer in layers]
    for closure in ("gaussian", "third-order"):
        found, expected = (pesn.propagate(one, x, closure=closure) for one in (program, layers))
        np.testing.assert_allclose(found.cov, expected.cov, rtol=1e-4, atol=1e-7)
    states = pesn.networks.propagate_gaussian(program, x, covariance="diagonal")
    assert [state.dim for state in states] == [12, 10, 2]


def residual():
    """Return a convolutional network with a shortcut, batch normalization and two heads."""
    rng = np.random.default_rng(3)
    w = lambda *shape: rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]))  # noqa: E731
    return model(
        [
            ("Conv", "x W b", "c", {"pads": [1] * 4}),
            ("BatchNormalization", "c s t m v", "n"),
            ("Relu", "n", "r"),
            ("Conv", "x S", "short"),
            ("Add", "r short", "sum"),
            ("Sigmoid", "sum", "gate"),
            ("Mul", "sum gate", "silu"),
            ("AveragePool", "silu", "p", {"kernel_shape": [2, 2], "strides": [2, 2]}),
            ("Flatten", "p", "f"),
            ("Dropout", "f", "d mask"),
            ("Gemm", "d A", "y"),
            ("MatMul", "d B", "w"),
        ],
        {"W": w(4, 1, 3, 3), "b": w(4), "s": 1.0 + 0.1 * w(4), "t": w(4), "m": 0.1 * w(4), "v": 1.0 + w(4) ** 2}
        | {"S": w(4, 1, 1, 1), "A": w(36, 2), "B": w(36, 1)},
        (1, 6, 6),
        outputs=("y", "w"),
        opset=13,
    )


def test_residual_convolutional_network_agrees_with_points():
    program = residual()
    x = uncertain(program, size=0.5)
    points = pesn.propagate(program, x, closure="sobol", n_samples=2**14)
    assert pesn.propagate(program, x).closure == "sobol"  # inexact closed forms are not selected
    found = pesn.propagate(program, x, closure="gaussian")
    np.testing.assert_allclose(found.std, points.std, rtol=0.05)
    assert found.error < 0.05
    exact = pesn.propagate(program, pesn.Gaussian(x.mean), closure="gaussian")
    np.testing.assert_allclose(exact.mean, itself(program, x)(x.mean[None])[0], rtol=1e-4, atol=1e-5)


def test_several_inputs_equal_one_joint_input():
    program = OPERATORS["two inputs"]
    parts = (pesn.Gaussian(RNG.normal(size=4), var=0.1), pesn.Gaussian(RNG.normal(size=3), var=0.2))
    joint = pesn.Gaussian(np.concatenate([p.mean for p in parts]), var=np.concatenate([p.var for p in parts]))
    np.testing.assert_allclose(pesn.propagate(program, parts).cov, pesn.propagate(program, joint).cov, rtol=1e-9)
    with pytest.raises(ValueError, match=r"x\[0\] must have 4 numbers, those of the input '.*' of the ONNX file, got 3"):
        pesn.propagate(program, parts[::-1])  # as many numbers in all
    with pytest.raises(ValueError, match=r"x must be a Gaussian for each input of the ONNX file, .*, or one of all, got 3"):
        pesn.propagate(program, (*parts, parts[0]))


def test_fixed_batch_size_and_missing_batch_axis_are_supported():
    fixed, free = (model([("MatMul", "x W", "h"), ("Softmax", "h", "y")], {"W": np.eye(3)}, (3,), batch=b) for b in (5, "N"))
    x = pesn.Gaussian([0.1, 0.2, 0.3], var=0.3)
    np.testing.assert_allclose(pesn.propagate(fixed, x).cov, pesn.propagate(free, x).cov, rtol=1e-5)
    bare = model([("Mul", "x W", "y")], {"W": np.array([1.0, 2.0, 3.0])}, (), batch=3)
    found = pesn.propagate(bare, x, n_samples=256)
    assert found.closure == "sobol"
    np.testing.assert_allclose(found.std, np.sqrt(0.3) * np.array([1.0, 2.0, 3.0]), rtol=0.05)
    with pytest.raises(ValueError, match="one input without an axis of rows"):
        pesn.propagate(bare, x, closure="gaussian")


def test_dynamic_sizes_require_shape():
    program = model([("Relu", "x", "r"), ("GlobalAveragePool", "r", "y")], shape=(2, "H", "W"))
    x = pesn.Gaussian(RNG.normal(size=24), var=0.1)
    found = pesn.propagate(program, x, shape=(2, 3, 4))
    assert found.closure == "gaussian"
    assert found.dim == 2
    with pytest.raises(ValueError, match=r"shape must say the sizes that the ONNX file leaves open: 'x' has \(2, \?, \?\)"):
        pesn.propagate(program, x)
    with pytest.raises(ValueError, match=r"shape of input 'x' must be \(2, \?, \?\), as in the ONNX file, got \(3, 2, 4\)"):
        pesn.propagate(program, x, shape=(3, 2, 4))


def test_input_without_shape_uses_the_given_shape():
    program = model([("ReduceSum", "x i", "y")], {"i": np.array([-1])})
    program.graph.input[0].type.tensor_type.ClearField("shape")
    x = pesn.Gaussian(np.arange(6.0), var=0.1)
    assert pesn.propagate(program, x).var == pytest.approx([0.6], rel=1e-6)
    assert pesn.propagate(program, x, shape=(3, 2)).var == pytest.approx([0.2] * 3, rel=1e-6)


def test_double_precision_is_preserved():
    program = model([("MatMul", "x W", "h"), ("Tanh", "h", "y")], {}, (3,), dtype=onnx.TensorProto.DOUBLE)
    program.graph.initializer.append(nh.from_array(np.eye(3), "W"))
    found = pesn.propagate(program, pesn.Gaussian(np.array([0.1, 0.2, 0.3])), closure="gaussian")
    np.testing.assert_allclose(found.mean, np.tanh([0.1, 0.2, 0.3]), rtol=1e-12)


def test_functions_of_the_file_are_read_through():
    body = [h.make_node("Tanh", ["a"], ["t"]), h.make_node("Add", ["a", "t"], ["b"])]
    opsets = [h.make_opsetid("", 20), h.make_opsetid("own", 1)]
    whole = model([("Neg", "x", "n")])
    whole.graph.node.append(h.make_node("Shortcut", ["n"], ["y"], domain="own"))
    whole.opset_import.append(h.make_opsetid("own", 1))
    whole.functions.append(h.make_function("own", "Shortcut", ["a"], ["b"], body, opsets))
    mean = np.array([0.1, 0.2, 0.3, 0.4])
    found = pesn.propagate(whole, pesn.Gaussian(mean), closure="gaussian")
    np.testing.assert_allclose(found.mean, -mean - np.tanh(mean), rtol=1e-6)


# ---------------------------------------------------------------- operators that are neither affine nor an activation

OTHERS = {
    "MaxPool": model([("MaxPool", "x", "y", {"kernel_shape": [2, 2], "strides": [2, 1], "pads": [1, 0, 0, 1]})], shape=IMAGE),
    "PRelu, channels": model([("PRelu", "x s", "y")], {"s": np.array([0.3, -0.1]).reshape(2, 1, 1)}, IMAGE),
    "Softmax": model([("Softmax", "x", "y")]),
    "Exp": model([("Exp", "x", "y")]),
    "LayerNormalization": model([("LayerNormalization", "x s", "y")], {"s": np.ones(16)}, (16,)),
    "InstanceNormalization": model([("InstanceNormalization", "x s b", "y")], {"s": normal(2), "b": normal(2)}, (2, 4, 3)),
    "a gate": model([("Gemm", "x W", "z"), ("Tanh", "z", "h"), ("Gemm", "x U", "g"), ("Mul", "h g", "y")],
                    {"W": normal(4, 4), "U": normal(4, 4)}),
    "attention": model(
        [
            ("MatMul", "x Q", "q"), ("MatMul", "x K", "k"), ("MatMul", "x V", "v"), ("Transpose", "k", "t", {"perm": [0, 2, 1]}),
            ("MatMul", "q t", "s"), ("Softmax", "s", "p"), ("MatMul", "p v", "a"), ("Add", "a x", "y"),
        ],
        {"Q": normal(4, 4), "K": normal(4, 4), "V": normal(4, 4)},
        (3, 4),
    ),
}  # fmt: skip


UNKNOWN = {
    "Hardmax": ([("Hardmax", "x", "y")], {}, "node 'y' of the ONNX graph, 'Hardmax', has no closed form: the"),
    "Div": ([("Div", "one x", "y")], {"one": np.ones(1)}, "'Div', has no closed form: the operator is not affine"),
    "Pow": ([("Pow", "x three", "y")], {"three": np.array(3.0)}, "'Pow', has no closed form: the operator is not affine"),
    "behind": ([("Sqrt", "x", "e"), ("Neg", "e", "y")], {}, "node 'e' of the ONNX graph, 'Sqrt', has no closed form: the op"),
}  # fmt: skip


@pytest.mark.parametrize("kind", [*OTHERS, *UNKNOWN])
def test_other_operators_use_points(kind, caplog):
    if kind in OTHERS:
        program, message = OTHERS[kind], r"of the ONNX graph, '.*', has no closed form: .*; use closure='sobol'$"
        x = uncertain(program)
    else:
        nodes, constants, message = UNKNOWN[kind]
        program, x = model(nodes, constants, (1, 4, 4)), pesn.Gaussian(np.linspace(2.0, 4.0, 16), var=0.1)
    with caplog.at_level(logging.INFO, "pesn.networks"):
        found = pesn.propagate(program, x)
    assert found.closure == "sobol"
    assert "has no closed form" in caplog.text
    drawn = itself(program, x)(x.sample(20_000, rng=0))
    np.testing.assert_allclose(found.std, drawn.std(axis=0), rtol=0.1, atol=0.02 * found.std.max())
    with pytest.raises(TypeError, match=message):
        pesn.propagate(program, x, closure="gaussian")


ROWS = "it mixes the rows of a batch"
CENTERED = model([("ReduceMean", "x a", "m", {"keepdims": 1}), ("Sub", "x m", "y")], {"a": np.array([0])}, (2,))
SQUARE = model([("Transpose", "x", "y", {"perm": [1, 0]})], {}, (2,), batch=2)  # of consistent shapes: only values reveal it
MIXED = {
    "Transpose": (model([("Transpose", "x", "y", {"perm": [1, 0, 2]})], {}, (3, 2)), ValueError, ROWS),
    "Reshape": (model([("Reshape", "x s", "y")], {"s": np.array([-1, 1])}, (2,)), ValueError, ROWS),
    "ReduceMean": (CENTERED, ValueError, ROWS),
    "Transpose, square": (SQUARE, TypeError, "the operator is not affine"),
}


@pytest.mark.parametrize("kind", MIXED)
def test_operators_that_mix_rows_have_no_closed_form(kind):
    program, error, message = MIXED[kind]
    with pytest.raises(error, match=f"'{kind.split(',')[0]}', has no closed form: {message}"):
        pesn.propagate(program, pesn.Gaussian(np.zeros(_size(program.graph.input[0])), var=1.0), closure="gaussian")


def test_points_of_networks_that_mix_rows_raise():
    x, (reshape, mean) = pesn.Gaussian([0.0, 0.0], var=1.0), (MIXED[kind][0] for kind in ("Reshape", "ReduceMean"))
    with pytest.raises(ValueError, match="mixes the rows of a batch") as raised:
        pesn.propagate(reshape, x, closure="sobol")
    assert "output 'y' of the ONNX file must have a row for each row of the input" in str(raised.value.__cause__)
    session = onnxruntime.InferenceSession(mean.SerializeToString())
    for network, message in ((mean, "'ReduceMean', has no closed form: it mixes the rows"), (session, "mixes rows of a batch")):
        with pytest.raises(ValueError, match=message):
            pesn.propagate(network, x)


def test_inference_session_is_propagated_by_points():
    program, layers = dense(3, 5, 2)
    session = onnxruntime.InferenceSession(program.SerializeToString(), providers=["CPUExecutionProvider"])
    x = pesn.Gaussian([0.1, 0.2, 0.3], var=0.2)
    np.testing.assert_allclose(pesn.propagate(session, x).std, pesn.propagate(layers, x).std, rtol=0.02)
    with pytest.raises(TypeError, match="an ONNX file or a ModelProto for a closed form, got an InferenceSession"):
        pesn.propagate(session, x, closure="gaussian")


# ---------------------------------------------------------------- files


def test_path_is_read_again_after_a_change(tmp_path):
    program, layers = dense(3, 5, 2)
    path = tmp_path / "model.onnx"
    onnx.save(program, path)
    x = pesn.Gaussian([0.1, 0.2, 0.3], var=0.2)
    for given in (path, str(path)):
        np.testing.assert_allclose(pesn.propagate(given, x).cov, pesn.propagate(layers, x).cov, rtol=1e-5)
    onnx.save(dense(3, 5, 2, seed=1)[0], path)  # overwrite with another model
    other = pesn.propagate(path, x)
    assert np.abs(other.cov / pesn.propagate(layers, x).cov - 1.0).max() > 0.01


def test_external_data_is_read(tmp_path):
    program, layers = dense(3, 40, 2)
    path = tmp_path / "model.onnx"
    onnx.save_model(program, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    x = pesn.Gaussian([0.1, 0.2, 0.3], var=0.2)
    np.testing.assert_allclose(pesn.propagate(path, x).cov, pesn.propagate(layers, x).cov, rtol=1e-5)
    (tmp_path / "weights.bin").unlink()
    path.touch()
    with pytest.raises(ValueError, match=r"network must be an ONNX file with its external data beside it, got '.*model\.onnx'"):
        pesn.propagate(path, x)


def test_invalid_files_raise(tmp_path):
    x = pesn.Gaussian([0.1, 0.2, 0.3], var=0.2)
    whole = dense(3, 40, 2)[0].SerializeToString()
    contents = {"text": b"this is no model", "cut": whole[: len(whole) // 2], "empty": b"", "pickle": b"\x80\x04N."}
    for name, content in contents.items():
        path = tmp_path / f"{name}.onnx"
        path.write_bytes(content)
        with pytest.raises(ValueError, match=rf"network must be an ONNX .*{name}\.onnx"):
            pesn.propagate(path, x)
    with pytest.raises(FileNotFoundError, match=r"network must be a path to an ONNX file, got '.*none\.onnx', which is no file"):
        pesn.propagate(tmp_path / "none.onnx", x)
    for path in ("model.pkl", tmp_path / "model.pt", ""):
        with pytest.raises(ValueError, match=r"a path that ends in \.onnx, or what was read from a file, got the path"):
            pesn.propagate(path, x)


def test_invalid_inputs_and_outputs_raise():
    program = model([("Cast", "x", "y", {"to": F})], dtype=onnx.TensorProto.INT64)
    program.graph.output[0].type.tensor_type.elem_type = F
    with pytest.raises(TypeError, match=r"input 'x' of the ONNX file must be a tensor of floating point, got tensor\(int64\)"):
        pesn.propagate(program, pesn.Gaussian(np.zeros(4), var=1.0))
    labels = model([("ArgMax", "x", "y", {"axis": 1})])
    labels.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    with pytest.raises(TypeError, match=r"output 'y' of the ONNX file must be a tensor of floating point, got int64"):
        pesn.propagate(labels, pesn.Gaussian(np.zeros(4), var=1.0))
    with pytest.raises(ValueError, match=r"x must have 4 numbers, those of the inputs 'x' \(4,\) of the ONNX file, got 3"):
        pesn.propagate(OPERATORS["Gemm"], pesn.Gaussian(np.zeros(3), var=1.0))
    fixed = model([("Neg", "c", "y"), ("Neg", "x", "w")], {"c": np.ones((1, 2))})
    with pytest.raises(ValueError, match="output 'y' of the ONNX graph does not depend on its inputs"):
        pesn.propagate(fixed, pesn.Gaussian(np.zeros(4), var=1.0), closure="gaussian")
