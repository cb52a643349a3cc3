"""A model of ours on the files that `planck quantize` writes: every scheme and dtype, with zero points and without.
The answers are those of the integers in the file, computed here again."""

import math
import os
import random
import subprocess
import unittest

import checkpoint
from checkpoint import Tensor, f32
from command import CommandTest

SCHEMES = [["per-tensor"], ["per-channel"], ["per-channel", "--axis", "1"], ["per-token"], ["per-group", "--group", "10"],
           ["per-group", "--group", "11"]]  # each divides the rows of one layer; the other stays float
IN, OUT, LAST, TOKENS = 33, 20, 8, 5


def rounded_tokens(x, columns):
    """Integers and scale of each row, s8, symmetric."""
    for row in (x[i:i + columns] for i in range(0, len(x), columns)):
        scale = f32(max(abs(v) for v in row) / 127) or 1.0
        yield [max(-128, min(127, round(f32(v / scale)))) for v in row], scale


class Stored(CommandTest):
    def setUp(self):
        super().setUp()
        subprocess.run([os.environ["STORED_SAMPLE"], self.path("floats")], check=True)
        rng = random.Random(6)
        self.x = [f32(rng.gauss(0, 1)) for _ in range(TOKENS * IN)]
        checkpoint.write(self.path("x"), {"x": Tensor("F32", [TOKENS, IN], self.x)})

    def run_model(self, quantized):
        done = subprocess.run([os.environ["STORED_SAMPLE"], self.path(quantized), self.path("x"), self.path("out")],
                              capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return {name: t.values() for name, t in checkpoint.read(self.path("out"))[0].items()}

    def answer(self, x, columns, name, tensors, metadata, bias):
        """The layer on the integers of the file; None where the file holds its weight as floats."""
        scheme = metadata.get("planck.quantized:" + name)
        if scheme is None:
            return None
        scheme = checkpoint.json.loads(scheme)
        rows = scheme["original_shape"][0]
        if scheme["scheme"] == "per_channel" and scheme["axis"] == 1:
            return None
        q = checkpoint.integers(tensors[name], scheme["dtype"])
        width = len(q) // rows  # four-bit rows end with a whole byte
        groups = checkpoint.groups(scheme, scheme["original_shape"])
        scales = tensors[name + "_scale"].values()
        zero = [scheme["zero_point"]] * len(scales) if scheme["symmetric"] else tensors[name + "_zero_point"].values()
        step = scheme.get("group", columns)
        out = []
        for codes, sx in rounded_tokens(x, columns):
            for r in range(rows):
                parts = []
                for begin in range(0, columns, step):
                    g = groups[r * columns + begin]
                    exact = sum(codes[i] * (q[r * width + i] - zero[g]) for i in range(begin, begin + step))
                    parts.append((f32(exact), scales[g]))
                if len(parts) == 1:
                    y = f32(parts[0][0] * f32(sx * parts[0][1]))
                else:
                    y = f32(math.fsum(f32(a * s) for a, s in parts) * sx)
                out.append(f32(y + bias[r]) if bias else y)
        return out

    def assert_close(self, got, want):
        for a, b in zip(got, want, strict=True):
            self.assertAlmostEqual(a, b, delta=1e-5)

    def compare(self, options):
        self.succeed("quantize", self.path("floats"), "-o", self.path("q"), "--force", "--exclude", "bias", *options)
        self.succeed("dequantize", self.path("q"), "-o", self.path("r"), "--force")
        tensors, metadata = checkpoint.read(self.path("q"))
        restored = checkpoint.read(self.path("r"))[0]
        got = self.run_model("q")
        want = self.answer(self.x, IN, "first.weight", tensors, metadata, tensors["first.bias"].values())
        if want is None:  # axis 1: restored, and multiplied as floats
            w, b = restored["first.weight"].values(), tensors["first.bias"].values()
            want = [math.fsum(self.x[t * IN + i] * w[r * IN + i] for i in range(IN)) + b[r]
                    for t in range(TOKENS) for r in range(OUT)]
        elif "per-group" not in options:
            self.assertEqual(got["y"], want)
        self.assert_close(got["y"], want)
        want = self.answer(got["y"], OUT, "second.weight", tensors, metadata, None)
        if want is not None:
            self.assert_close(got["z"], want)
        if want is not None and "per-group" not in options:
            self.assertEqual(got["z"], want)
        self.assertEqual(got["conv"], restored["conv.weight"].values())
        self.assertEqual(got["again"], got["y"])

    def test_every_scheme(self):
        for scheme in SCHEMES:
            for dtype in ["s8", "u8", "s4", "u4"] if scheme[-1] != "11" else ["s8", "u8"]:
                for kind in ["--symmetric", "--affine"]:
                    with self.subTest(scheme=scheme, dtype=dtype, kind=kind):
                        self.compare(["--scheme", *scheme, "--dtype", dtype, kind])

    def test_states_stay_states(self):
        """What is made of a state's file has no checksum of what it was."""
        self.succeed("quantize", self.path("floats"), "-o", self.path("q"), "--dtype", "s4")
        self.run_model("q")  # leaves a converted model, with a checksum and integers of four bits
        self.succeed("dequantize", self.path("out.again"), "-o", self.path("r"))
        self.assertIn("planck.state.sha256", checkpoint.read(self.path("out.again"))[1])
        self.assertEqual(checkpoint.read(self.path("r"))[1], {})

    def test_sixteen_bits_and_a_search(self):
        floats, metadata = checkpoint.read(self.path("floats"))
        checkpoint.write(self.path("floats"), {n: Tensor("BF16", t.shape, t.values()) for n, t in floats.items()})
        self.compare(["--dtype", "u4", "--affine", "--method", "mse"])

    def test_a_folder_of_shards(self):
        self.succeed("quantize", self.path("floats"), "-o", self.path("one"), "--exclude", "bias")
        self.succeed("quantize", self.path("floats"), "-o", self.path("many"), "--exclude", "bias", "--shard-size", "1KB")
        self.assertGreater(len([n for n in os.listdir(self.path("many")) if n.endswith("safetensors")]), 1)
        self.assertEqual(self.run_model("one"), self.run_model("many"))


if __name__ == "__main__":
    unittest.main()
