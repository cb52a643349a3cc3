"""Converted modules in ONNX Runtime: the same integers and the same logits as ours, bit for bit where sums are integers."""

import os
import subprocess
import tempfile
import unittest

from clients import docs_reader, needs

np, onnx, ort = needs("numpy", "onnx", "onnxruntime")
MODELS = ["s8-tensor", "s8-channel", "s4-tensor", "s4-channel"]


def run(path, x, level):
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, {"input": x})[0]


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
        for model in MODELS:
            for form in ["integers", "qdq"]:
                onnx.checker.check_model(self.load(model)[0] + f".{form}.onnx", full_check=True)

    def test_integers_give_our_bits(self):
        for model in MODELS:
            with self.subTest(model):
                at, x, want = self.load(model)
                got = run(at + ".integers.onnx", x, ort.GraphOptimizationLevel.ORT_DISABLE_ALL)
                self.assertEqual(got.tobytes(), want.tobytes())
                fused = run(at + ".integers.onnx", x, ort.GraphOptimizationLevel.ORT_ENABLE_ALL)
                np.testing.assert_allclose(fused, want, rtol=1e-5, atol=1e-5)
                one = run(at + ".integers.onnx", x[:1], ort.GraphOptimizationLevel.ORT_DISABLE_ALL)
                self.assertEqual(one.tobytes(), want[:1].tobytes())

    def test_qdq_gives_our_logits(self):
        """Sums are floats: an input that lies between two integers may fall to the other side, once in a while."""
        for model in MODELS:
            with self.subTest(model):
                at, x, want = self.load(model)
                got = run(at + ".qdq.onnx", x, ort.GraphOptimizationLevel.ORT_DISABLE_ALL)
                close = np.isclose(got, want, rtol=1e-4, atol=1e-5).all(axis=1)
                self.assertGreaterEqual(close.mean(), 0.7, model)
                self.assertLess(np.abs(got - want).max(), np.abs(want).max() * (0.02 if "s8" in model else 0.5))
                # The first layer's integers are the same: its input has not been rounded yet.
                self.assertEqual(self.integers(at + ".qdq.onnx", x).tobytes(),
                                 (self.integers(at + ".integers.onnx", x).astype(np.int32) - 128).astype(np.int8).tobytes())

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

    def integers(self, path, x):
        model = onnx.load(path)
        name = next(n.output[0] for n in model.graph.node if n.op_type == "QuantizeLinear")
        kind = onnx.TensorProto.UINT8 if "integers" in path else onnx.TensorProto.INT8
        del model.graph.output[:]
        model.graph.output.append(onnx.helper.make_tensor_value_info(name, kind, None))
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        return ort.InferenceSession(model.SerializeToString(), options).run([name], {"input": x})[0]


if __name__ == "__main__":
    unittest.main()
