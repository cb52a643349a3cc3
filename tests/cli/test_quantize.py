"""quantize, dequantize and inspect on checkpoints made here, against an independent reading of the format."""

import itertools
import json
import math
import random
import struct
import unittest

import checkpoint
from checkpoint import Tensor, f32
from command import CommandTest

SCHEMES = [("per-tensor",), ("per-channel", "--axis", "0"), ("per-channel", "--axis", "1"), ("per-token",),
           ("per-group", "--group", "4")]


def model():
    rng = random.Random(7)

    def weight(dtype, shape):
        row = shape[-1]
        sizes = [rng.choice([0.01, 0.1, 1, 3]) for _ in range(math.prod(shape) // row)]
        values = [f32(rng.gauss(0, 1) * sizes[i // row]) for i in range(math.prod(shape))]
        return Tensor(dtype, shape, values)

    return {
        "f32.weight": weight("F32", [6, 8]),
        "f64.weight": weight("F64", [3, 4]),
        "bf16.weight": weight("BF16", [5, 16]),
        "f16.weight": weight("F16", [2, 3, 8]),
        "zeros": Tensor("F32", [2, 4], [0.0] * 8),
        "odd": weight("F32", [3, 7]),
        "norm": weight("F32", [8]),
        "scalar": Tensor("F32", [], [2.5]),
        "empty": Tensor("F32", [0, 4], []),
        "ids": Tensor("I64", [2, 3], list(range(6))),
        "mask": Tensor("BOOL", [2, 2], [True, False, True, True]),
        "fp8": Tensor("F8_E4M3", [2, 2], [1, 2, 3, 255]),
        "rank9": Tensor("F32", [1] * 9, [1.0]),
    }


class Quantize(CommandTest):
    def setUp(self):
        super().setUp()
        self.original = model()
        self.metadata = {"format": "pt", "note": "kept \u00e9"}
        checkpoint.write(self.path("in"), self.original, self.metadata)

    def quantize(self, out, *options):
        return json.loads(self.succeed("quantize", self.path("in"), "-o", self.path(out), "--force", "--json", *options))

    def test_round_trip_of_every_scheme(self):
        for scheme, dtype, kind in itertools.product(SCHEMES, ["s8", "u8", "s4", "u4"], ["--symmetric", "--affine"]):
            with self.subTest(scheme=scheme, dtype=dtype, kind=kind):
                report = self.quantize("q", "--scheme", *scheme, "--dtype", dtype, kind)
                rows = {r["name"]: r for r in report["tensors"]}
                stored, metadata = checkpoint.read(self.path("q"))
                want, want_metadata = checkpoint.restore(stored, metadata)
                self.succeed("dequantize", self.path("q"), "-o", self.path("r"), "--force")
                restored, restored_metadata = checkpoint.read(self.path("r"))
                self.assertEqual(restored, want)
                self.assertEqual(restored_metadata, self.metadata)
                self.assertEqual(want_metadata, self.metadata)
                for name, t in self.original.items():
                    self.check_tensor(t, restored[name], rows[name], 15 if dtype.endswith("4") else 255)

    def check_tensor(self, original, restored, row, levels):
        if not row["quantized"]:
            self.assertEqual(original, restored)
            return
        x, y = original.values(), restored.values()
        self.assertEqual(restored.dtype, original.dtype)
        largest = max(abs(v) for v in x)
        # Half a step of the coarsest group, and the rounding of scale and result in 8 bits.
        self.assertLessEqual(max(abs(a - b) for a, b in zip(x, y)), largest * (2 / (levels - 1) + 2 ** -7))
        self.assertAlmostEqual(row["max_abs_error"], max(abs(a - b) for a, b in zip(x, y)), delta=1e-12)
        noise = math.fsum((a - b) ** 2 for a, b in zip(x, y))
        if noise == 0:
            self.assertIsNone(row["sqnr_db"])
        else:
            self.assertAlmostEqual(row["sqnr_db"], 10 * math.log10(math.fsum(a * a for a in x) / noise), places=6)

    def test_symmetric_values_are_those_of_the_formula(self):
        self.quantize("q", "--scheme", "per-channel")
        stored, _ = checkpoint.read(self.path("q"))
        x = self.original["f32.weight"].values()
        for row in range(6):
            part = x[8 * row:8 * row + 8]
            scale = f32(max(abs(v) for v in part) / 127)
            self.assertEqual(stored["f32.weight_scale"].values()[row], scale)
            # round() ties to even, as rint does.
            self.assertEqual(stored["f32.weight"].values()[8 * row:8 * row + 8],
                             [max(-128, min(127, round(f32(v / scale)))) for v in part])
        self.assertNotIn("f32.weight_zero_point", stored)
        self.assertEqual(stored["zeros_scale"].values(), [1.0, 1.0])

    def test_what_is_kept_and_why(self):
        rows = {r["name"]: r for r in self.quantize("q", "--dtype", "s4", "--scheme", "per-group", "--group", "4")["tensors"]}
        reasons = {name: r["kept"] for name, r in rows.items() if not r["quantized"]}
        self.assertEqual(sorted(reasons), ["empty", "fp8", "ids", "mask", "norm", "odd", "rank9", "scalar"])
        self.assertEqual(reasons["norm"], "rank 1 is below 2")
        self.assertEqual(reasons["rank9"], "rank 9 is above 8")
        self.assertEqual(reasons["ids"], "not a float")
        self.assertIn("last extent", reasons["odd"])
        rows = {r["name"]: r for r in self.quantize("q", "--min-rank", "1", "--scheme", "per-token")["tensors"]}
        self.assertTrue(rows["norm"]["quantized"])

    def test_include_and_exclude(self):
        rows = self.quantize("q", "--include", "weight$", "--exclude", "^f(16|64)")["tensors"]
        self.assertEqual(sorted(r["name"] for r in rows if r["quantized"]), ["bf16.weight", "f32.weight"])

    def test_same_bytes_on_any_number_of_threads(self):
        contents = set()
        for threads in ["1", "2", "3", "1"]:
            self.quantize("q", "--threads", threads, "--scheme", "per-tensor")
            with open(self.path("q"), "rb") as f:
                contents.add(f.read())
        self.assertEqual(len(contents), 1)

    def test_what_is_quantized_is_not_quantized_again(self):
        self.quantize("q")
        self.refuse("is quantized already", "quantize", self.path("q"), "-o", self.path("q2"))

    def test_misaligned_data(self):
        tensors = {"byte": Tensor("U8", [1], [9]), **self.original}
        for name in ["abc", "abcd", "abcde", "abcdef"]:  # one of the header lengths is not a multiple of 4
            checkpoint.write(self.path("m"), {name: Tensor("U8", [1], [9]), **self.original}, pad=False)
            self.succeed("quantize", self.path("m"), "-o", self.path("q"), "--force")
            self.succeed("dequantize", self.path("q"), "-o", self.path("r"), "--force")
            got, metadata = checkpoint.read(self.path("q"))
            self.assertEqual(checkpoint.read(self.path("r"))[0], checkpoint.restore(got, metadata)[0])
        self.assertEqual(len(tensors), len(self.original) + 1)

    def test_non_finite_values(self):
        values = [math.nan, math.inf, -math.inf, 1.0, -2.0, 0.5, 0.0, 2.0]
        checkpoint.write(self.path("in"), {"w": Tensor("F32", [2, 4], values)})
        row = self.quantize("q", "--scheme", "per-tensor")["tensors"][0]
        self.assertEqual(row["non_finite"], 3)
        self.assertLess(row["max_abs_error"], 0.02)
        text = self.succeed("quantize", self.path("in"), "-o", self.path("q"), "--force")
        self.assertIn("1 tensor holds values that are NaN or infinite", text)
        self.assertIn('"w": 3 values', text)
        self.refuse('tensor "w": 3 values are NaN or infinite, --strict refuses', "quantize", self.path("in"), "-o",
                    self.path("strict"), "--strict")
        self.assertNotIn("strict", self.names())

    def test_name_collisions(self):
        checkpoint.write(self.path("in"), {**self.original, "f32.weight_scale": Tensor("F32", [1], [1.0])})
        self.refuse('tensor "f32.weight_scale" exists', "quantize", self.path("in"), "-o", self.path("q"))
        self.assertEqual(self.names(), ["in"])

    def test_inspect(self):
        self.quantize("q", "--scheme", "per-group", "--group", "4", "--dtype", "u4", "--affine")
        j = json.loads(self.succeed("inspect", self.path("q"), "--json"))
        rows = {r["name"]: r for r in j["tensors"]}
        self.assertTrue(j["quantized"])
        self.assertEqual(j["metadata"], self.metadata)
        self.assertEqual(rows["bf16.weight"]["scheme"]["original_dtype"], "BF16")
        self.assertEqual(rows["bf16.weight"]["shape"], [5, 8])
        self.assertEqual(rows["bf16.weight_scale"]["shape"], [5, 4])
        text = self.succeed("inspect", self.path("q"))
        self.assertIn("per-group 4 u4 affine", text)
        self.assertIn("BF16 [5, 16]", text)
        for name in self.original:
            self.assertIn(name, self.succeed("inspect", self.path("in")))

    def test_inspect_shows_the_fields_of_gguf(self):
        def text(value):
            return struct.pack("<Q", len(value)) + value

        values = [("tiny.u8", 0, struct.pack("<B", 200), 200), ("tiny.i8", 1, struct.pack("<b", -3), -3),
                  ("u16", 2, struct.pack("<H", 65535), 65535), ("i16", 3, struct.pack("<h", -4), -4),
                  ("general.alignment", 4, struct.pack("<I", 64), 64), ("i32", 5, struct.pack("<i", -5), -5),
                  ("llama.epsilon", 6, struct.pack("<f", 1e-5), 1e-5), ("truth", 7, b"\1", True),
                  ("general.name", 8, text("größe\x1b[2J".encode()), "größe\x1b[2J"),
                  ("tokens", 9, struct.pack("<IQ", 8, 9) + b"".join(text(b"t%d" % i) for i in range(9)),
                   {"type": "text", "count": 9, "first": [f"t{i}" for i in range(8)]}),
                  ("scores", 9, struct.pack("<IQ2f", 6, 2, 0.5, -1), {"type": "f32", "count": 2, "first": [0.5, -1]}),
                  ("nested", 9, struct.pack("<IQIQB", 9, 1, 0, 1, 7), {"type": "array", "count": 1, "first": []}),
                  ("u64", 10, struct.pack("<Q", 2 ** 64 - 1), 2 ** 64 - 1), ("i64", 11, struct.pack("<q", -6), -6),
                  ("f64", 12, struct.pack("<d", 0.1), 0.1)]
        head = b"GGUF" + struct.pack("<IQQ", 3, 1, len(values))
        head += b"".join(text(key.encode()) + struct.pack("<I", kind) + value for key, kind, value, _ in values)
        head += text(b"w") + struct.pack("<IQIQ", 1, 3, 0, 0)
        with open(self.path("in.gguf"), "wb") as f:
            f.write(head + b"\0" * (-len(head) % 64) + struct.pack("<3f", 1, 2, 3))
        told = json.loads(self.succeed("inspect", self.path("in.gguf"), "--json"))
        self.assertEqual(told["fields"], {key: want for key, _, _, want in values})
        lines = self.succeed("inspect", self.path("in.gguf")).splitlines()
        for line in ('field general.name = "größe\\x1b[2J"', "field llama.epsilon = 1e-05", "field truth = true",
                     'field tokens = [9 × text: "t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", …]',
                     "field scores = [2 × f32: 0.5, -1]", "field nested = [1 × array, …]"):
            self.assertIn(line, lines)

    def test_inspect_shows_several_files_as_one_checkpoint(self):
        for name in ("a", "b"):
            checkpoint.write(self.path(name), {name + ".weight": Tensor("F32", [2, 4], range(8))})
        told = json.loads(self.succeed("inspect", self.path("a"), self.path("b"), "--json"))
        self.assertEqual(told["file"], [self.path("a"), self.path("b")])
        self.assertEqual([t["name"] for t in told["tensors"]], ["a.weight", "b.weight"])
        text = self.succeed("inspect", self.path("a"), self.path("b"))
        self.assertIn(f"{self.path('a')} and 1 more: 2 tensors", text)
        self.refuse("a.weight", "inspect", self.path("a"), self.path("a"))

    def test_names_cannot_write_to_the_terminal(self):
        checkpoint.write(self.path("in"), {"\x1b[2J\nw": Tensor("F32", [1, 2], [1.0, 2.0])})
        for arguments in (["inspect", self.path("in")], ["quantize", self.path("in"), "-o", self.path("q")]):
            text = self.succeed(*arguments)
            self.assertNotIn("\x1b", text)
            self.assertIn("\\x1b[2J\\x0aw", text)


class ConvertedModels(CommandTest):
    def test_what_the_demo_converts_is_in_the_planck_format(self):
        self.succeed("demo", "--out", self.path("d"), "--epochs", "1", "--qat-epochs", "1")
        for bits in (8, 4):
            path = self.path(f"d/model-int{bits}.safetensors")
            told = json.loads(self.succeed("inspect", path, "--json"))
            self.assertTrue(told["quantized"])
            schemes = {t["name"]: t["scheme"] for t in told["tensors"] if "scheme" in t}
            self.assertEqual(sorted(schemes), ["conv1.weight", "conv2.weight", "hidden.weight", "output.weight",
                                               "upright.localizer.conv.weight", "upright.localizer.hidden.weight"])
            most = 2 ** (bits - 1) - 1
            for scheme in schemes.values():
                self.assertEqual([scheme[key] for key in ("scheme", "axis", "dtype", "q_min", "q_max", "symmetric")],
                                 ["per_channel", 0, f"s{bits}", -most, most, True])
            self.assertEqual(schemes["conv2.weight"]["original_shape"], [32, 16, 3, 3])
            self.succeed("dequantize", path, "-o", self.path(f"r{bits}"))
            restored, floats = (checkpoint.read(p)[0] for p in (self.path(f"r{bits}"), self.path("d/model.safetensors")))
            for name in schemes:
                self.assertEqual((restored[name].dtype, restored[name].shape), ("F32", floats[name].shape))
            stored, metadata = checkpoint.read(path)
            want = checkpoint.restore(stored, metadata)[0]
            for name in schemes:
                self.assertEqual(restored[name], want[name], name)
            self.assertGreater(json.loads(self.succeed("eval", path, "--json"))["accuracy"], 0.1)
        self.assertFalse(json.loads(self.succeed("inspect", self.path("d/model.safetensors"), "--json"))["quantized"])


if __name__ == "__main__":
    unittest.main()
