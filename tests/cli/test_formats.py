"""What is written, opened with other people's readers: the docs' NumPy reader, safetensors, compressed-tensors'
layout; the search for scales; the same bytes on any number of threads."""

import hashlib
import json
import os
import pathlib
import unittest

import checkpoint
from checkpoint import Tensor
from clients import docs_reader, needs
from command import CommandTest

np, safetensors = needs("numpy", "safetensors")
SCHEMES = [("per-tensor",), ("per-channel", "--axis", "0"), ("per-channel", "--axis", "1"), ("per-token",),
           ("per-group", "--group", "16")]


# Tensors that are kept as they are: every type that a file may have beside floats of 16 bits and more.
KEPT = {"BOOL": ("?", [True, False, True]), "I8": ("i1", [-128, 0, 127]), "I16": ("<i2", [-32768, 1, 32767]),
        "I32": ("<i4", [-2 ** 31, 2, 3]), "I64": ("<i8", [-2 ** 63, 2, 3]), "U8": ("u1", [0, 1, 255]),
        "U16": ("<u2", [0, 1, 65535]), "U32": ("<u4", [0, 1, 2 ** 32 - 1]), "U64": ("<u8", [0, 1, 2 ** 64 - 1]),
        "C64": ("<c8", [0, 1j, 2 - 1j]), "F8_E4M3": ("u1", [0x7f, 0x01, 0x80]), "F8_E5M2": ("u1", [0x7c, 0x01, 0xff]),
        "F8_E8M0": ("u1", [0, 127, 255])}


def load_file(path):
    """By the safetensors package; NumPy has no bf16, so without the layer that is stored in it, and without F8."""
    with safetensors.safe_open(path, "numpy") as f:
        return {name: f.get_tensor(name) for name in f.keys() if "down" not in name and "F8" not in name and "F4" not in name}


def bf16(x):
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)


class Formats(CommandTest):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(3)
        self.w = rng.standard_t(4, (48, 64)).astype(np.float32)
        self.cube = rng.standard_normal((3, 8, 32))
        checkpoint.write(self.path("in"), {
            "layer.proj.weight": Tensor("F32", self.w.shape, data=self.w.tobytes()),
            "layer.down.weight": Tensor("BF16", self.w.shape, data=bf16(self.w).tobytes()),
            "cube": Tensor("F64", self.cube.shape, data=self.cube.tobytes()),
            "model.embed_tokens.weight": Tensor("F32", [4, 64], data=self.w[:4].tobytes()),
            "lm_head.weight": Tensor("F32", [4, 64], data=self.w[:4].tobytes()),
            "norm": Tensor("F32", [8], [1.0] * 8),
            **{"kept." + dtype: Tensor(dtype, [3, 1], data=np.array(values, code).tobytes())
               for dtype, (code, values) in KEPT.items()},
            "kept.F4": Tensor("F4", [2, 2], data=b"\x10\x32")}, {"note": "x"})

    def test_the_page_reads_what_dequantize_restores(self):
        read = docs_reader()
        for scheme in SCHEMES:
            for dtype in ["s8", "u8", "s4", "u4"]:
                for kind in ["--symmetric", "--affine"]:
                    with self.subTest(scheme=scheme, dtype=dtype, kind=kind):
                        self.succeed("quantize", self.path("in"), "-o", self.path("q"), "--force", "--scheme", *scheme, "--dtype",
                                     dtype, kind)
                        self.succeed("dequantize", self.path("q"), "-o", self.path("r"), "--force")
                        got, want = read(self.path("q")), read(self.path("r"))
                        self.assertEqual(sorted(got), sorted(want))
                        for name, x in want.items():
                            y = got[name]
                            if name == "layer.down.weight":  # the page leaves the last rounding to its reader
                                x, y = bf16(x), bf16(y)
                            np.testing.assert_array_equal(x, y)

    def test_the_page_reads_what_is_kept(self):
        self.succeed("quantize", self.path("in"), "-o", self.path("q"))
        got = docs_reader()(self.path("q"))
        for dtype, (code, values) in KEPT.items():
            x = got["kept." + dtype]
            self.assertEqual((x.dtype, x.shape, x.tobytes()), (np.dtype(code), (3, 1), np.array(values, code).tobytes()), dtype)
        self.assertEqual(got["kept.F4"].tolist(), [0x10, 0x32])

    def test_safetensors_opens_it(self):
        self.succeed("quantize", self.path("in"), "-o", self.path("q"), "--force", "--exclude", "down")
        got = load_file(self.path("q"))
        self.assertEqual(got["layer.proj.weight"].dtype, np.int8)
        scale = got["layer.proj.weight_scale"]
        np.testing.assert_array_equal(scale, np.abs(self.w).max(1) / np.float32(127))
        self.assertLessEqual(np.abs(got["layer.proj.weight"] * scale[:, None] - self.w).max(), scale.max() * 0.51)

    def test_compressed_tensors(self):
        for dtype, bits in [("s4", 4), ("s8", 8)]:
            for scheme in [("per-group", "--group", "32"), ("per-channel",)]:
                with self.subTest(dtype=dtype, scheme=scheme):
                    out = self.path(f"ct-{dtype}-{scheme[0]}")
                    self.succeed("quantize", self.path("in"), "-o", out, "--format", "compressed-tensors", "--dtype",
                                 dtype, "--scheme", *scheme)
                    self.succeed("quantize", self.path("in"), "-o", self.path("q"), "--force", "--dtype", dtype, "--scheme", *scheme)
                    got = load_file(os.path.join(out, "model.safetensors"))
                    want = docs_reader()(self.path("q"))["layer.proj.weight"]
                    packed, scale = got["layer.proj.weight_packed"], got["layer.proj.weight_scale"]
                    self.assertEqual(got["layer.proj.weight_shape"].tolist(), [48, 64])
                    self.assertEqual((packed.dtype, packed.shape), (np.int32, (48, 64 * bits // 32)))
                    # As compressed-tensors unpacks: from the low bits up, then minus half the range.
                    words = packed.view(np.uint32)
                    q = np.stack([words >> (bits * i) & (2 ** bits - 1) for i in range(32 // bits)], -1)
                    q = q.reshape(48, 64).astype(np.int32) - 2 ** (bits - 1)
                    x = (q.reshape(48, scale.shape[1], -1) * scale[:, :, None]).reshape(48, 64).astype(np.float32)
                    np.testing.assert_array_equal(x, want)
                    config = json.loads(pathlib.Path(out, "config.json").read_text())["quantization_config"]
                    self.assertEqual((config["quant_method"], config["format"]), ("compressed-tensors", "pack-quantized"))
                    self.assertEqual(sorted(config["ignore"]), ["lm_head", "model.embed_tokens"])
                    weights = config["config_groups"]["group_0"]["weights"]
                    self.assertEqual((weights["num_bits"], weights["symmetric"]), (bits, True))
                    self.assertEqual(weights["group_size"], 32 if scheme[0] == "per-group" else None)
        for bad, says in [(["--affine"], "--affine"), (["--dtype", "u8"], "--dtype u8"), (["--scheme", "per-tensor"], "--scheme")]:
            self.refuse(says, "quantize", self.path("in"), "-o", self.path("no"), "--format", "compressed-tensors", *bad)

    def test_mse_is_better_and_says_so(self):
        for scheme in SCHEMES:
            for dtype in ["s4", "u4", "s8"]:
                for kind in ["--symmetric", "--affine"]:
                    with self.subTest(scheme=scheme, dtype=dtype, kind=kind):
                        options = ["--json", "--scheme", *scheme, "--dtype", dtype, kind]
                        rtn = json.loads(self.succeed("quantize", self.path("in"), "-o", self.path("q"), "--force", *options))
                        mse = json.loads(self.succeed("quantize", self.path("in"), "-o", self.path("q"), "--force", *options,
                                                      "--method", "mse"))
                        for a, b in zip(rtn["tensors"], mse["tensors"]):
                            if not a["quantized"]:
                                continue
                            self.assertAlmostEqual(a["sqnr_db"], b["sqnr_db_rtn"], delta=0.02)
                            self.assertGreaterEqual(b["sqnr_db"], a["sqnr_db"] - 0.02)
                            if dtype != "s8" and scheme[0] == "per-channel" and a["name"] != "cube":  # heavy tails
                                gain = 0.5 if kind == "--symmetric" else 0.1
                                self.assertGreater(b["sqnr_db"], a["sqnr_db"] + gain)

    def test_same_bytes_for_any_threads_and_any_cut(self):
        """Tensors of several units, with groups inside units and across them."""
        rng = np.random.default_rng(4)
        big = rng.standard_normal((3, 300_000)).astype(np.float32)
        checkpoint.write(self.path("big"), {"rows": Tensor("F32", [3, 300_000], data=big.tobytes()),
                                            "columns": Tensor("F32", [300_000, 3], data=big.tobytes()),
                                            "planes": Tensor("F32", [300, 3, 1000], data=big.tobytes())})
        for options in [["--scheme", "per-tensor"], ["--scheme", "per-channel", "--axis", "1"], ["--scheme", "per-channel"],
                        ["--scheme", "per-group", "--group", "100", "--exclude", "columns"]]:
            for method in ["rtn", "mse"]:
                digests = set()
                for threads in ["1", "2", "5"]:
                    self.succeed("quantize", self.path("big"), "-o", self.path("q"), "--force", "--method", method, "--threads",
                                 threads, *options)
                    with open(self.path("q"), "rb") as f:
                        digests.add(hashlib.sha256(f.read()).hexdigest())
                self.assertEqual(len(digests), 1, options)
            # The scale of whole tensors and columns is the one of all their values.
            self.succeed("quantize", self.path("big"), "-o", self.path("q"), "--force", *options)
            got = load_file(self.path("q"))
            if "per-tensor" in options:
                self.assertEqual(got["rows_scale"], np.abs(big).max() / np.float32(127))
            if "1" in options:
                np.testing.assert_array_equal(got["columns_scale"],
                                              np.abs(big.reshape(300_000, 3)).max(0) / np.float32(127))
                np.testing.assert_array_equal(
                    got["columns"], np.clip(np.rint(big.reshape(300_000, 3) / got["columns_scale"]), -128, 127))


if __name__ == "__main__":
    unittest.main()
