"""planck run --grad: every differentiable op, its gradients against differences of the op itself."""

import json
import math
import random
import unittest

import checkpoint
from checkpoint import Tensor
from command import CommandTest

RNG = random.Random(5)


def floats(*shape):
    """Distinct values of 0.2 to 0.9: away from steps, kinks and ties."""
    n = math.prod(shape)
    order = list(range(n))
    RNG.shuffle(order)
    return Tensor("F64", shape, [0.2 + 0.7 * (k + 0.4) / n for k in order])


def integers(values, shape=None, dtype="I64"):
    return Tensor(dtype, shape or [len(values)], values)


def mask(*values, shape=None):
    return Tensor("BOOL", shape or [len(values)], values)


X, MASK = floats(3, 4), mask(*[1, 0, 1, 1] * 3, shape=[3, 4])
UNARY = """neg abs sign square sqrt rsqrt reciprocal exp expm1 log log1p sin cos tanh sigmoid relu leaky_relu gelu silu
softplus softsign erf floor ceil round trunc clamp add_scalar mul_scalar div_scalar rdiv_scalar pow_scalar copy mean prod max min var logsumexp
sum cumsum cummax cummin softmax log_softmax sort""".split()
BINARY = "add sub mul div maximum minimum pow atan2 gelu_backward relu_backward".split()
SCALES = {"per_tensor": [], "per_channel": [3], "per_token": [3], "per_group": [3, 2]}


def cases():
    all_cases = {op: ({"x": X}, []) for op in UNARY}
    all_cases.update({op: ({"a": X, "b": floats(4)}, []) for op in BINARY})
    image, filters, patch = floats(1, 2, 4, 4), floats(3, 2, 3, 3), floats(1, 3, 2, 2)
    all_cases.update({
        "pow_scalar": ({"x": X}, ["value=2.5"]), "clamp": ({"x": X}, ["min=0.4", "max=0.7"]),
        "where": ({"condition": MASK, "a": X, "b": floats(3, 4)}, []), "mask_fill": ({"x": X, "mask": MASK}, []),
        "cast": ({"x": X}, ["dtype=f64"]), "var": ({"x": X}, ["axes=-1"]), "softmax": ({"x": X}, ["axis=0"]),
        "cross_entropy": ({"x": X, "targets": integers([1, 0, 3])}, []),
        "layer_norm": ({"x": X, "weight": floats(4), "bias": floats(4)}, []),
        "attention": ({"q": floats(1, 2, 3, 4), "k": floats(1, 2, 5, 4), "v": floats(1, 2, 5, 4)}, []),
        "rms_norm": ({"x": X, "weight": floats(4)}, []),
        "matmul": ({"a": floats(2, 3), "b": floats(3, 2)}, []),
        "conv2d": ({"x": image, "weight": filters}, []),
        "conv2d_input": ({"dy": patch, "weight": filters}, ["size=4"]),
        "conv2d_weight": ({"x": image, "dy": patch}, ["kernel=3"]),
        "max_pool2d": ({"x": image}, ["kernel=2"]),
        "max_pool2d_backward": ({"dy": floats(1, 1, 2, 2), "indices": integers([0, 3, 8, 10], [1, 1, 2, 2], "I32")},
                                ["kernel=2", "input_size=4"]),
        "avg_pool2d": ({"x": image}, ["kernel=2"]),
        "avg_pool2d_backward": ({"dy": floats(1, 1, 2, 2)}, ["kernel=2", "input_size=4"]),
        "adaptive_avg_pool2d": ({"x": image}, ["size=3"]),
        "adaptive_avg_pool2d_backward": ({"dy": floats(1, 1, 3, 3)}, ["input_size=4"]),
        "gather": ({"x": X, "index": integers([0, 3, 1, 1, 2, 0], [3, 2])}, ["axis=1"]),
        "index_select": ({"x": X, "index": integers([2, 0, 2])}, []),
        "scatter": ({"x": X, "index": integers([0, 3, 1, 2, 2, 0], [3, 2]), "source": floats(3, 2)}, ["axis=1"]),
        "scatter_add": ({"x": X, "index": integers([0, 3, 1, 1, 2, 0], [3, 2]), "source": floats(3, 2)}, ["axis=1"]),
        "index_add": ({"x": X, "index": integers([2, 2]), "source": floats(2, 4)}, []),
        "mask_select": ({"x": X, "mask": MASK}, []),
        "mask_scatter": ({"x": X, "mask": MASK, "values": floats(12)}, []),
        "topk": ({"x": X}, ["k=2"]),
        "grid_sample": ({"input": image, "grid": Tensor("F64", [1, 1, 3, 2], [-0.4, 0.3, 0.12, -0.3, 0.55, 0.1])}, []),
        "affine_grid": ({"theta": floats(1, 2, 3)}, ["size=1,1,2,3"]),
        "affine_grid_backward": ({"dgrid": floats(1, 2, 3, 2)}, []),
        "embedding": ({"weight": floats(4, 2), "indices": integers([2, 0, 2])}, []),
        "embedding_backward": ({"dout": floats(3, 2), "indices": integers([2, 0, 2])}, ["num_embeddings=4"]),
        "embedding_bag": ({"weight": floats(4, 2), "indices": integers([2, 0, 2, 3]), "offsets": integers([0, 2]),
                           "weights": floats(4)}, []),
        "reshape": ({"x": X}, ["shape=2x6"]), "permute": ({"x": X}, ["axes=1,0"]),
        "expand": ({"x": floats(3, 1)}, ["shape=2x3x4"]), "slice": ({"x": X}, ["start=-1", "step=-2"]),
        "slice_assign": ({"x": X, "values": floats(1, 4)}, ["stop=1"]), "flip": ({"x": X}, []),
        "cat": ({"x0": X, "x1": floats(1, 4)}, []), "stack": ({"x0": X, "x1": floats(3, 4)}, ["axis=1"]),
        "split": ({"x": X}, ["sizes=1,2"]), "pad": ({"x": X}, ["before=1,0", "after=0,-1"]),
        "repeat": ({"x": X}, ["counts=2,1"]),
    })
    for kind, shape in SCALES.items():
        n = math.prod(shape)
        group = ["group=2"] if kind == "per_group" else []
        scale = {"scale": floats(*shape), "zero_point": integers([1] * n, shape, "I32")}
        all_cases["dequantize_" + kind] = ({"q": integers(range(12), [3, 4], "I8"), **scale}, group)
        all_cases[f"quantize_{kind}_backward"] = ({"dy": floats(3, 4), "x": X, **scale}, group)
        all_cases[f"dequantize_{kind}_backward"] = ({"dy": floats(3, 4), "scale": scale["scale"]}, group)
        all_cases[f"fake_quantize_{kind}_backward"] = ({"dy": floats(3, 4), "x": X, **scale}, group)
        all_cases["fake_quantize_" + kind] = ({"x": X, **scale}, group)
    return all_cases


def moved(t, direction, h):
    return Tensor("F64", t.shape, [v + h * d for v, d in zip(t.values(), direction)])


class Gradients(CommandTest):
    def test_every_differentiable_op(self):
        ops = json.loads(self.succeed("ops", "--json"))
        table = cases()
        self.assertEqual(sorted(table), sorted(op["op"] for op in ops if op["differentiable"]))
        for op, (tensors, settings) in table.items():
            with self.subTest(op):
                self.check(op, tensors, settings)

    def test_the_second_output_of_attention(self):
        self.check("attention", *cases()["attention"], "lse")

    def test_what_scores_of_attention_become(self):
        tensors = cases()["attention"][0]
        for settings in (["soft_cap=0.5"], ["alibi=true", "causal=true"], ["dropout=0.4", "seed=3", "offset=1"],
                         ["query_offsets=0,1,1,3", "key_offsets=0,2,3,5", "soft_cap=2", "dropout=0.2"]):
            with self.subTest(settings):
                self.check("attention", tensors, settings)

    def test_what_follows_a_product(self):
        tensors = {**cases()["matmul"][0], "bias": floats(2), "residual": floats(2, 2)}
        for settings in ([], ["activation=gelu"], ["activation=silu"]):
            with self.subTest(settings):
                self.check("matmul", tensors, settings)

    def check(self, op, tensors, settings, name=None):
        out = self.run_op(op, tensors, *settings)
        stored = checkpoint.read(self.path("out"))[0]
        name = name or next(n for n in ("y", "out", "c", "loss", "values", "output", "grid", "dx", "dweight", "dtheta", "dq", "x", "y0")
                    if n in out and stored[n].dtype == "F64")
        weights = [math.cos(1 + i) for i in range(len(out[name]))]
        cotangent = {"grad." + name: Tensor("F64", stored[name].shape, weights)}
        found = self.gradients(op, {**tensors, **cotangent}, *settings)
        self.assertEqual({n: found[n] for n in out if n in found}, {n: out[n] for n in out if n in found})
        self.assertIn(name, found)
        inputs = [n for n, t in tensors.items() if t.dtype == "F64"]
        self.assertEqual(sorted(n for n in found if n.startswith("grad.")), sorted("grad." + n for n in inputs))
        if op.startswith("fake_quantize") and not op.endswith("backward"):  # straight through
            return self.assertEqual(found["grad.x"], weights)
        h, slope, along = 1e-6, 0.0, {}
        for n in inputs:
            along[n] = [math.sin(2 + 3 * i) for i in range(math.prod(tensors[n].shape))]
            slope += math.fsum(g * d for g, d in zip(found["grad." + n], along[n]))
        ends = [self.run_op(op, {n: moved(t, along[n], s) if n in along else t for n, t in tensors.items()}, *settings)[name]
                for s in (h, -h)]
        differences = math.fsum(w * (a - b) for w, a, b in zip(weights, *ends)) / (2 * h)
        self.assertAlmostEqual(slope, differences, delta=1e-6 * (1 + abs(differences)))

    def test_ones_are_the_cotangent_unless_one_is_given(self):
        x = Tensor("F32", [2], [2, 3])
        self.assertEqual(self.gradients("square", {"x": x})["grad.x"], [4, 6])
        found = self.gradients("split", {"x": x, "grad.y1": Tensor("F32", [1], [5])}, "sizes=1,1")
        self.assertEqual((found["y0"], found["grad.x"]), ([2], [0, 5]))

    def test_what_has_none_says_so(self):
        x = {"x": Tensor("F32", [2], [2, 3])}
        for op in ("argmax", "quantize_per_tensor", "dynamic_quantize_per_tensor"):
            self.refuse(f"--grad: {op} has no gradient", *self._run_arguments(op, x, []), "--grad")
        self.refuse("gradients need x to hold floats",
                    *self._run_arguments("neg", {"x": Tensor("I32", [2], [2, 3])}, []), "--grad")
        self.refuse("it gives no floats called z",
                    *self._run_arguments("neg", {**x, "grad.z": Tensor("F32", [2], [2, 3])}, []), "--grad")
        self.refuse("the cotangent has shape [1]",
                    *self._run_arguments("neg", {**x, "grad.y": Tensor("F32", [1], [2])}, []), "--grad")


if __name__ == "__main__":
    unittest.main()
