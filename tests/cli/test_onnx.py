"""Converted modules in ONNX Runtime: the same integers and the same logits as ours, bit for bit where sums are integers; the
demo's model as well, whose spatial transformer is of floats."""

import os
import subprocess
import tempfile
import unittest

from clients import docs_reader, needs

np, onnx, ort = needs("numpy", "onnx", "onnxruntime")
MODELS = ["s8-tensor", "s8-channel", "s4-tensor", "s4-channel"]
DIGITS = ["digits-s8", "digits-s4"]
UNIT = 2.0 ** -24  # half a unit in the last place of 1, in f32


def run(path, x, level):
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, {"input": x})[0]


def tapped(model, x, names):
    """What flows under these names."""
    model.graph.output.extend(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in names)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return dict(zip(names, ort.InferenceSession(model.SerializeToString(), options).run(names, {"input": x})))


class Graph:
    """A graph, what ONNX Runtime computes in it, and what follows from its integers in f64."""

    def __init__(self, path, x):
        model = onnx.load(path)
        self.nodes = list(model.graph.node)
        self.constants = {c.name: onnx.numpy_helper.to_array(c) for c in model.graph.initializer}
        self.quantizers = [i for i, n in enumerate(self.nodes) if n.op_type == "QuantizeLinear"]
        logits = model.graph.output[0].name
        names = [self.nodes[i].output[0] for i in self.quantizers]
        kind = onnx.TensorProto.INT8 if "qdq" in path else onnx.TensorProto.UINT8
        model.graph.output.extend(onnx.helper.make_tensor_value_info(name, kind, None) for name in names)
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        told = ort.InferenceSession(model.SerializeToString(), options).run([logits] + names, {"input": x})
        self.x, self.logits, self.integers = x, told[0], told[1:]

    def after(self, i):
        """From the integers of quantizer i on: the value at the next one, or the logits; how far f32 may be from it; and the
        scale of the next one."""
        begin = self.quantizers[i]
        last = self.quantizers[i + 1] if i + 1 < len(self.quantizers) else len(self.nodes)
        scale = self.constants[self.nodes[last].input[1]].astype(np.float64) if last < len(self.nodes) else None
        return *self.follow(self.nodes[begin].output[0], self.integers[i], self.nodes[begin + 1:last]), scale

    def follow(self, name, known, nodes):
        """What these nodes make of an exact value and of the input: the last one's, and how far f32 may be from it."""
        value = {name: (known.astype(np.float64), 0), "input": (self.x.astype(np.float64), 0)}
        for node in nodes:
            value[node.output[0]] = getattr(self, node.op_type)(node, *[
                value.get(name, (self.constants.get(name), 0)) for name in node.input])
        return value[node.output[0]]

    # Each op takes and gives (value, bound).
    def DequantizeLinear(self, node, q, scale, zero):
        axes = [1] * q[0].ndim
        if scale[0].ndim:
            axes[node.attribute[0].i] = -1
        return q[0].astype(np.float64) * scale[0].astype(np.float64).reshape(axes), 0

    def MatMul(self, node, x, w):
        passed = x[1] @ np.abs(w[0]) if np.ndim(x[1]) else 0
        return x[0] @ w[0], passed + (len(w[0]) + 4) * UNIT * (np.abs(x[0]) @ np.abs(w[0]))

    def Conv(self, node, x, w):
        how = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        return (conv(x[0], w[0], **how),
                (w[0][0].size + 4) * UNIT * conv(np.abs(x[0]), np.abs(w[0]), **how))

    def Add(self, node, x, y):
        return x[0] + y[0], x[1] + y[1] + 2 * UNIT * (np.abs(x[0]) + np.abs(y[0]))

    def Mul(self, node, x, factor):
        return x[0] * factor[0], x[1] * np.abs(factor[0]) + UNIT * np.abs(x[0] * factor[0])

    def Reshape(self, node, x, shape):
        return tuple(part.reshape(shape[0]) for part in x)

    def Gather(self, node, x, at):
        return tuple(part[..., at[0]] for part in x)

    def GridSample(self, node, picture, grid):
        """A place has three roundings; a value follows it no faster than neighbours differ, and has a dozen of its own."""
        size, x = picture[0].shape[-1], picture[0]
        place = grid[1] * size / 2 + 2 * UNIT * (np.abs(grid[0]) + 1) * size
        most = max(x.max(), 0) - min(x.min(), 0)
        return sample(x, grid[0]), ((place.sum(-1) + 12 * UNIT) * most)[:, None]

    def Relu(self, node, x):
        return np.maximum(x[0], 0), x[1]

    def Clip(self, node, x, low, high):
        return np.clip(x[0], low[0], high[0]), x[1]

    def Flatten(self, node, x):
        return tuple(part.reshape(len(part), -1) for part in x)

    def MaxPool(self, node, x):
        return windows(x[0]).max((-1, -2)), windows(x[1]).max((-1, -2))

    def AveragePool(self, node, x):
        return windows(x[0]).mean((-1, -2)), windows(x[1]).mean((-1, -2)) + 4 * UNIT * windows(np.abs(x[0])).mean((-1, -2))


def windows(x):
    """2 × 2, side by side."""
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).swapaxes(3, 4)


def sample(x, grid):
    """[N, C, H, W] at [N, OH, OW, 2], zeros around it."""
    n, c, h, w = x.shape
    padded = np.zeros((n, c, h + 2, w + 2))
    padded[..., 1:-1, 1:-1] = x
    place = np.clip(((grid + 1) * [w, h] - 1) / 2 + 1, 0, [w + 1, h + 1])
    low = np.minimum(np.floor(place), [w, h]).astype(int)
    part = place - low
    images = np.arange(n)[:, None, None]
    at = lambda dy, dx: np.moveaxis(padded[images, :, low[..., 1] + dy, low[..., 0] + dx], -1, 1)
    weight = lambda dy, dx: ((part if dx else 1 - part)[..., 0] * (part if dy else 1 - part)[..., 1])[:, None]
    return sum(at(dy, dx) * weight(dy, dx) for dy in (0, 1) for dx in (0, 1))


def conv(x, w, kernel_shape, strides, pads, dilations, group):
    x = np.pad(x, [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])])
    reach = [(k - 1) * d + 1 for k, d in zip(kernel_shape, dilations)]
    seen = np.lib.stride_tricks.sliding_window_view(x, reach, (2, 3))
    seen = seen[:, :, ::strides[0], ::strides[1], ::dilations[0], ::dilations[1]]
    parts = zip(np.split(seen, group, 1), np.split(w, group))
    return np.concatenate([np.einsum("nchwij,ocij->nohw", s, v) for s, v in parts], 1)


class Onnx(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="planck-onnx-")
        subprocess.run([os.environ["ONNX_SAMPLE"], cls.folder.name], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def load(self, model):
        at = os.path.join(self.folder.name, model)
        return at, np.load(at + ".x.npy"), np.load(at + ".y.npy")

    def test_the_checker_accepts_them(self):
        for model in MODELS + ["sequential"] + DIGITS:
            for form in ["integers", "qdq"]:
                onnx.checker.check_model(self.load(model)[0] + f".{form}.onnx", full_check=True)

    def test_integers_give_our_bits(self):
        for model in MODELS + ["sequential"]:
            with self.subTest(model):
                at, x, want = self.load(model)
                got = run(at + ".integers.onnx", x, ort.GraphOptimizationLevel.ORT_DISABLE_ALL)
                self.assertEqual(got.tobytes(), want.tobytes())
                fused = run(at + ".integers.onnx", x, ort.GraphOptimizationLevel.ORT_ENABLE_ALL)
                np.testing.assert_allclose(fused, want, rtol=1e-5, atol=1e-5)
                one = run(at + ".integers.onnx", x[:1], ort.GraphOptimizationLevel.ORT_DISABLE_ALL)
                self.assertEqual(one.tobytes(), want[:1].tobytes())

    def test_qdq_rounds_what_it_says(self):
        """Every integer of a QDQ graph is the rounding of a value that f32 sums can give, and every logit is such a value.

        Sums of floats have rounding errors, integer sums have none: a value near the middle between two integers may become
        the other one, and then later layers see another input. So layers are held one by one: from the integers that ONNX
        Runtime fed to a layer, what follows is computed here in f64, with a bound of what f32 may have added to it. A sum of n
        products has n + 4 roundings: of both factors, of each product or addition, of the bias, of the quotient."""
        for model in MODELS + ["sequential"] + DIGITS:
            with self.subTest(model):
                at, x, want = self.load(model)
                graph = Graph(at + ".qdq.onnx", x)
                for i, q in enumerate(graph.integers):
                    exact, bound, scale = graph.after(i)
                    if scale is None:  # the logits
                        self.assertTrue((np.abs(graph.logits - exact) <= bound).all())
                        continue
                    got = graph.integers[i + 1].astype(np.float64)
                    units, slack = exact / scale, bound / scale
                    # Of a unit: only what lies in the middle may fall to either side. The demo's sums have 512 terms, and its
                    # picture is seen through an affine map: a unit of a place is eight pixels.
                    self.assertLess(slack.max(), 0.001 if "digits" not in model else 0.15 if i == 1 else 0.03)
                    self.assertTrue((np.abs(got - units) <= 0.5 + slack).all())
                # Inputs whose integers are all those of the integer operators have their logits.
                ours = [q.astype(np.int32) - 128 for q in Graph(at + ".integers.onnx", x).integers]
                self.assertTrue((ours[0] == graph.integers[0]).all())  # nothing has been summed yet
                same = np.all([(a == b).reshape(len(x), -1).all(1) for a, b in zip(ours, graph.integers)], axis=0)
                self.assertTrue(same.any())
                self.assertTrue((np.abs(graph.logits - want) <= 2 * bound)[same].all())

    def test_the_demos_model_gives_our_bits_but_for_its_floats(self):
        """A float layer and GridSample stand between integers: what comes before them and what follows from their picture is
        ours to the bit, the picture within what f32 sums may add."""
        for model in DIGITS:
            with self.subTest(model):
                at, x, want = self.load(model)
                looked, seen = np.load(at + ".looked.npy"), np.load(at + ".seen.npy")
                whole, off = at + ".integers.onnx", ort.GraphOptimizationLevel.ORT_DISABLE_ALL
                graph = Graph(whole, x)
                kinds = [n.op_type for n in graph.nodes]
                turning = graph.nodes[kinds.index("MatMul"):kinds.index("GridSample") + 1]
                theta, sampled = turning[0].input[0], turning[-1].output[0]
                got = tapped(onnx.load(whole), x, [theta, sampled])
                self.assertEqual(got[theta].tobytes(), looked.tobytes())
                exact, bound = graph.follow(theta, looked, turning)
                self.assertTrue((np.abs(got[sampled] - exact) <= bound).all())
                self.assertTrue((np.abs(seen - exact) <= bound).all())
                self.assertLess(bound.max(), 1e-3)
                self.assertGreater(np.abs(seen - x).max(), 0.1, "it has looked elsewhere")
                # From the same picture on: the same bits.
                upright = at + ".upright.integers.onnx"
                self.assertEqual(run(upright, seen, off).tobytes(), want.tobytes())
                self.assertEqual(run(upright, got[sampled], off).tobytes(), run(whole, x, off).tobytes())
                # And so wherever the picture is rounded to the same integers.
                rounded = [Graph(upright, picture).integers[0].reshape(len(x), -1) for picture in (seen, got[sampled])]
                same = (rounded[0] == rounded[1]).all(1)
                self.assertGreater(same.mean(), 0.5)
                self.assertEqual(run(whole, x, off)[same].tobytes(), want[same].tobytes())

    def test_what_cannot_be_written_is_refused(self):
        with open(os.path.join(self.folder.name, "refused")) as f:
            told = f.read().splitlines()
        says = ["nn::convert makes them", "a scale for each token", "has 8 scales, 1 or one for each of 4 rows",
                "has never observed its input: calibrate", "weight is bf16, it must be f32", "accepted"]
        self.assertEqual(len(told), len(says))
        for line, says in zip(told, says):
            self.assertIn(says, line)

    def test_the_checkpoint_holds_the_same_weights(self):
        """nn::save_quantized writes the planck format: the docs' reader finds the weights that QDQ dequantizes."""
        read = docs_reader()
        for model in MODELS:
            at = self.load(model)[0]
            saved = read(at + ".safetensors")
            graph = onnx.load(at + ".qdq.onnx").graph
            constants = {c.name: onnx.numpy_helper.to_array(c) for c in graph.initializer}
            weights = [(constants[n.input[0]], constants[n.input[1]], n.attribute[0].i) for n in graph.node
                       if n.op_type == "DequantizeLinear" and n.input[0] in constants]
            for name, (q, scale, axis) in zip(["conv1", "conv2", "hidden", "output"], weights):
                shape = [1] * q.ndim
                shape[axis] = scale.size
                want = q.astype(np.float32) * scale.reshape(shape)
                np.testing.assert_array_equal(saved[name + ".weight"], want if axis == 0 else want.T, f"{model} {name}")


if __name__ == "__main__":
    unittest.main()
