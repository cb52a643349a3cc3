"""planck run, ops and verify as their users run them."""

import json
import math
import unittest

import checkpoint
from checkpoint import Tensor, f32
from command import CommandTest

X = [-300.0, -1.5, -0.5, 0.5, 1.5, 2.5, 300.0, math.nan]
SCALES = [1.0, 0.5]
# Elements are seen elsewhere, or copied: no kernel.
SHAPE_OPS = ["reshape", "permute", "expand", "slice", "slice_assign", "flip", "cat", "stack", "split", "pad", "repeat"]


def rint(v):
    return round(v)  # to nearest, ties to even


def quantized(values, scales, low, high):
    half = len(values) // 2
    return [0 if math.isnan(v) else max(low, min(high, rint(f32(v / scales[i // half])))) for i, v in enumerate(values)]


class Run(CommandTest):
    def write_inputs(self, **more):
        tensors = {"x": Tensor("F32", [2, 4], X), "scale": Tensor("F32", [2], SCALES),
                   "zero_point": Tensor("I32", [2], [0, 0]), **more}
        checkpoint.write(self.path("in"), tensors)

    def quantize(self, *more):
        return self.succeed("run", "quantize_per_channel", "--in", self.path("in"), "--out", self.path("out"), "--force",
                            *more)

    def outputs(self):
        return checkpoint.read(self.path("out"))[0]

    def test_quantizes_and_says_what_ran(self):
        self.write_inputs()
        text = self.quantize("--set", "axis=0")
        self.assertIn("quantize_per_channel cpu:", text)
        self.assertIn("cross_device", text)
        self.assertEqual(self.outputs()["q"].values(), quantized(X, SCALES, -128, 127))
        said = json.loads(self.quantize("--json"))
        self.assertEqual((said["op"], said["element"], said["aux"], said["reproducibility"], said["device"]),
                         ("quantize_per_channel", "f32", "s8", "cross_device", "cpu"))

    def test_threads_and_preferences_change_no_bit(self):
        self.write_inputs()
        kernel = json.loads(self.quantize("--json"))["kernel"]
        before = self.outputs()
        self.quantize("--threads", "3", "--prefer", f"kernel={kernel}", "--prefer", "at_least=cross_device")
        self.assertEqual(self.outputs(), before)

    def test_packs_two_to_a_byte(self):
        self.write_inputs()
        self.quantize("--set", "dtype=s4")
        q = self.outputs()["q"]
        expected = [v & 15 for v in quantized(X, SCALES, -8, 7)]
        self.assertEqual((q.dtype, q.shape), ("U8", [2, 2]))
        self.assertEqual(q.values(), [expected[i] | expected[i + 1] << 4 for i in range(0, 8, 2)])
        checkpoint.write(self.path("packed"), {"q": q, "scale": Tensor("F32", [2], SCALES),
                                               "zero_point": Tensor("I32", [2], [0, 0])})
        self.succeed("run", "dequantize_per_channel", "--in", self.path("packed"), "--out", self.path("out"),
                     "--force", "--set", "dtype=s4")
        x = self.outputs()["x"]
        self.assertEqual((x.dtype, x.shape), ("F32", [2, 4]))
        self.assertEqual(x.values(), [v * SCALES[i // 4] for i, v in enumerate(quantized(X, SCALES, -8, 7))])

    def test_refuses_in_one_line(self):
        self.write_inputs()
        run = ["run", "quantize_per_channel", "--in", self.path("in"), "--out", self.path("out")]
        self.refuse("no op is called quantise", "run", "quantise", "--in", self.path("in"), "--out", self.path("out"))
        self.refuse("needs OP, --in FILE and --out FILE", "run", "quantize_per_channel")
        self.refuse("no attribute is called axes", *run, "--set", "axes=1")
        self.refuse("axis is 2", *run, "--set", "axis=2")
        self.refuse("must be KEY=VALUE", *run, "--set", "axis")
        self.refuse("given twice", *run, "--set", "axis=0", "--set", "axis=1")
        self.refuse("not the kernel asked for (cpu:imagined)", *run, "--prefer", "kernel=cpu:imagined")
        self.refuse("must be none, run_to_run or cross_device", *run, "--prefer", "at_least=always")
        self.refuse("must be kernel, at_least or max_workspace", *run, "--prefer", "speed=yes")
        self.refuse("--device is tpu", *run, "--device", "tpu")
        self.write_inputs(extra=Tensor("F32", [1], [0.0]))
        self.refuse("no input is called extra", *run)
        checkpoint.write(self.path("in"), {"x": Tensor("F32", [2, 4], X)})
        self.refuse("input scale is missing", *run)
        self.write_inputs(scale=Tensor("F32", [3], [1.0, 1.0, 1.0]))
        self.refuse("scale has 3 elements, shape[axis=0] is 2", *run)
        self.refuse("missing.safetensors", "run", "quantize_per_channel", "--in", self.path("missing.safetensors"),
                    "--out", self.path("out"))
        self.assertNotIn("out", self.names())

    def test_lists_operands_and_attributes(self):
        text = self.succeed("run", "--list", "fake_quantize_per_group_backward")
        for word in ("dy", "zero_point", "dscale (optional)", "learnable", "group"):
            self.assertIn(word, text)
        self.refuse("no op is called nothing", "run", "--list", "nothing")


class Ops(CommandTest):
    def test_lists_every_op_in_three_forms(self):
        ops = json.loads(self.succeed("ops", "--json"))
        self.assertGreaterEqual(len(ops), 28)
        markdown, text = self.succeed("ops", "--markdown"), self.succeed("ops")
        for op in ops:
            self.assertIn(f"\n## {op['op']}\n", markdown)
            self.assertIn(op["op"], text)
            has_kernels = op["op"] not in SHAPE_OPS
            self.assertEqual(any(k["device"] == "cpu" for k in op["kernels"]), has_kernels, op["op"])
            self.assertIsInstance(op["attributes"], list)
        self.assertEqual(markdown, self.succeed("ops", "--markdown"))


class Verify(CommandTest):
    def test_one_case_by_its_id(self):
        said = json.loads(self.succeed("verify", "--filter", "^quantize_per_tensor:.*:1$", "--json"))
        self.assertTrue(said["holds"])
        self.assertEqual([(o["op"], o["cases"]) for o in said["ops"]], [("quantize_per_tensor", 1)])

    def test_bits_are_the_same_on_every_instruction_set(self):
        digests = {}
        for target in ("baseline", "avx2", "avx512"):
            done = self.run_planck("verify", "--only-values", "--values", "3000000", "--cpu-target", target, "--json")
            if done.returncode == 2 and "this CPU has no" in done.stderr:
                continue
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            digests[target] = json.loads(done.stdout)["sweep"]["digest"]
        self.assertGreaterEqual(len(digests), 1)
        self.assertEqual(len(set(digests.values())), 1, digests)

    def test_refuses_in_one_line(self):
        self.refuse("not a regular expression", "verify", "--filter", "(")
        self.refuse("must be cpu or cuda", "verify", "--device", "tpu")
        self.refuse("not avx512, avx2 or baseline", "verify", "--cpu-target", "mmx")

    def test_products_are_a_matter_of_gpus(self):
        self.refuse("--only-products compares a GPU's tensor cores", "verify", "--only-products")
        self.refuse("--products compares a GPU's tensor cores", "verify", "--products", "5")
        self.refuse("--only-products with --products 0", "verify", "--device", "cuda", "--only-products", "--products", "0")
        self.refuse("--only-values", "verify", "--device", "cuda", "--only-products", "--only-values")
        for wrong in ("-1", "1e9", "many"):
            self.refuse("--products", "verify", "--device", "cuda", "--only-products", "--products", wrong)
        self.refuse("--seed", "verify", "--device", "cuda", "--only-products", "--seed", "-1")
        self.assertIn("--only-products", self.succeed("verify", "--help"))

    def test_tensor_cores_follow_their_contract(self):
        command = ("verify", "--device", "cuda", "--only-products", "--products", "5000000", "--json")
        done = self.run_planck(*command)
        if done.returncode == 2 and "no CUDA device" in done.stderr:
            self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1), done)
            self.skipTest("no CUDA device")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        said = json.loads(done.stdout)
        self.assertTrue(said["holds"])
        self.assertIn("tensor_core bf16 by mma.sync", [line["name"] for line in said["products"]])
        for line in said["products"]:
            self.assertGreaterEqual(line["outputs"], 5000000, line)
            self.assertEqual(line["differing"], 0, line)
        self.refuse("--filter zzz matches none of the products", *command, "--filter", "zzz")
        some = json.loads(self.succeed(*command, "--seed", "3", "--filter", " f16 by mma"))["products"]
        self.assertEqual([line["name"] for line in some], ["tensor_core f16 by mma.sync"])


class Bench(CommandTest):
    def test_one_row(self):
        said = json.loads(self.succeed("bench", "--filter", r"^dequantize_per_channel f32 \[8, 128\]|^dequantize_per_channel s8 \[8, 128\]",
                                       "--min-time", "0.01", "--json"))
        self.assertEqual([r["op"] for r in said["rows"]], ["dequantize_per_channel"])
        self.assertGreater(said["rows"][0]["seconds"], 0)


if __name__ == "__main__":
    unittest.main()
