"""GGUF in and out, against the `gguf` package: its reader, its dequantization, its quantized bytes."""

import json
import struct
import unittest

import checkpoint
from checkpoint import Tensor
from clients import needs
from command import CommandTest

np, gguf = needs("numpy", "gguf")
EXACT = ["q8_0", "q4_0", "q4_1", "q5_0", "q5_1"]  # where the reference does not search
SEARCHED = ["q4_k", "q6_k"]
DECODED = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "MXFP4"]


def read(path):
    reader = gguf.GGUFReader(path)
    return {t.name: t for t in reader.tensors}, reader


def dequantized(t):
    return gguf.quants.dequantize(np.array(t.data), t.tensor_type)


class Written(CommandTest):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(5)
        w = rng.standard_normal((24, 512)).astype(np.float32) * rng.choice([0.01, 1, 30], (24, 1)).astype(np.float32)
        w[3] = 0
        w[4, :256] = np.abs(w[4, :256])
        w[5] = 1.25
        self.weights = w
        self.tensors = {"w": Tensor("F32", w.shape, data=w.tobytes()),
                        "half": Tensor("F16", w.shape, data=w.astype(np.float16).tobytes()),
                        "odd": Tensor("F32", [2, 33], [0.5] * 66), "norm": Tensor("F32", [512], [1.0] * 512),
                        "ids": Tensor("I32", [4], [1, 2, 3, 4])}
        checkpoint.write(self.path("in"), self.tensors, {"format": "pt"})

    def quantize(self, dtype, *options):
        return json.loads(self.succeed("quantize", self.path("in"), "-o", self.path("out.gguf"), "--format", "gguf",
                                       "--dtype", dtype, "--json", "--force", *options))

    def test_the_bytes_of_the_reference_where_it_does_not_search(self):
        for dtype in EXACT:
            with self.subTest(dtype):
                self.quantize(dtype)
                got, _ = read(self.path("out.gguf"))
                kind = gguf.GGMLQuantizationType[dtype.upper()]
                for name, x in [("w", self.weights), ("half", self.weights.astype(np.float16).astype(np.float32))]:
                    want = gguf.quants.quantize(x, kind)
                    self.assertEqual(got[name].tensor_type, kind)
                    self.assertEqual(got[name].data.tobytes(), want.tobytes())
                self.assertEqual(list(got["w"].shape), [512, 24])

    def test_what_is_not_quantized_is_kept(self):
        rows = {r["name"]: r for r in self.quantize("q4_0")["tensors"]}
        got, _ = read(self.path("out.gguf"))
        self.assertEqual(rows["odd"]["kept"], "rows of 33 are not whole blocks of 32")
        for name in ["odd", "norm", "ids"]:
            self.assertEqual(got[name].data.tobytes(), self.tensors[name].data)

    def test_names_that_ggml_does_not_open(self):
        for length, says in [(63, None), (64, "has a name of 64 bytes, ggml opens no file with one of more than 63")]:
            checkpoint.write(self.path("named"), {"n" * length: Tensor("F32", [4, 32], range(128))})
            command = ["quantize", self.path("named"), "-o", self.path("named.gguf"), "--format", "gguf", "--force"]
            self.refuse(says, *command) if says else self.succeed(*command)
            self.succeed("quantize", self.path("named"), "-o", self.path("q"), "--force")

    def test_errors_are_those_of_the_package(self):
        for dtype in EXACT + SEARCHED:
            with self.subTest(dtype):
                row = {r["name"]: r for r in self.quantize(dtype)["tensors"]}["w"]
                got = dequantized(read(self.path("out.gguf"))[0]["w"])
                off = (self.weights.astype(np.float64) - got)
                self.assertAlmostEqual(row["max_abs_error"], float(np.abs(off).max()), delta=1e-9)
                x = self.weights.astype(np.float64)
                self.assertAlmostEqual(row["sqnr_db"], 10 * np.log10((x * x).sum() / (off * off).sum()), places=5)

    def test_a_search_beats_rounding_to_the_range(self):
        for dtype, plain in [("q4_k", plain_q4_k), ("q6_k", plain_q6_k)]:
            with self.subTest(dtype):
                self.quantize(dtype)
                got = dequantized(read(self.path("out.gguf"))[0]["w"])
                ours = ((self.weights - got).astype(np.float64) ** 2).reshape(-1, 256).sum(1)
                theirs = ((self.weights - plain(self.weights)).astype(np.float64) ** 2).reshape(-1, 256).sum(1)
                self.assertLess(ours.sum(), 0.95 * theirs.sum())
                self.assertLess(np.mean(ours > theirs * 1.02), 0.05)  # of super-blocks

    def test_a_search_is_no_worse_than_the_search_of_the_reference(self):
        rng = np.random.default_rng(1)
        shapes = {"normal": rng.standard_normal((24, 1024)), "heavy tails": rng.standard_t(4, (24, 1024)),
                  "of one sign": np.abs(rng.standard_normal((24, 1024))), "tiny": rng.standard_normal((24, 1024)) * 1e-6}
        for what, x in shapes.items():
            x = x.astype(np.float32)
            checkpoint.write(self.path("in"), {"w": Tensor("F32", x.shape, data=x.tobytes())})
            for dtype, reference in [("q4_k", searched_q4_k), ("q6_k", searched_q6_k)]:
                with self.subTest(what, dtype=dtype):
                    self.quantize(dtype)
                    got = dequantized(read(self.path("out.gguf"))[0]["w"])
                    ours, theirs = (((x - y).astype(np.float64) ** 2).sum() for y in (got, reference(x)))
                    self.assertLessEqual(ours, theirs)
                    if what != "tiny":  # where scales of 16 bits have few digits; elsewhere theirs does search
                        self.assertLess(theirs, ((x - plain_of(dtype)(x)).astype(np.float64) ** 2).sum())

    def test_mxfp4_pairs_become_blocks_and_other_integers_wider_ones(self):
        blocks, scales = bytes((7 * i) & 255 for i in range(2 * 3 * 16)), bytes([127, 128, 120, 130, 127, 90])
        kept = {"truth": Tensor("BOOL", [3], [1, 0, 1]), "bytes": Tensor("U8", [4], [0, 1, 128, 255]),
                "words": Tensor("U16", [3], [0, 40000, 65535])}
        checkpoint.write(self.path("in"), {"w": self.tensors["w"], "m_blocks": Tensor("U8", [2, 3, 16], data=blocks),
                                           "m_scales": Tensor("U8", [2, 3], data=scales), **kept})
        rows = {r["name"]: r.get("kept") for r in self.quantize("q4_0")["tensors"]}
        self.assertEqual(rows, {"w": None, "m_blocks": 'is MXFP4 already, "m"', "m_scales": "scales of MXFP4, with its blocks",
                                "truth": "not a float, written as I8", "bytes": "not a float, written as I16",
                                "words": "not a float, written as I32"})
        got, _ = read(self.path("out.gguf"))
        self.assertEqual(sorted(got), ["bytes", "m", "truth", "w", "words"])
        self.assertEqual((got["m"].tensor_type, list(got["m"].shape)), (gguf.GGMLQuantizationType.MXFP4, [96, 2]))
        values = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]
        want = [values[n] * 2.0 ** (scales[i // 16] - 127) for i, b in enumerate(blocks) for n in (b & 15, b >> 4)]
        np.testing.assert_array_equal(dequantized(got["m"]).reshape(-1), np.array(want, np.float32))
        for name, t in kept.items():
            self.assertEqual(got[name].data.tolist(), [int(v) for v in t.values()])

    def test_mxfp4_of_a_gguf_stays_as_it_is(self):
        writer = gguf.GGUFWriter(self.path("in.gguf"), "llama")
        data = np.arange(2 * 17 * 4, dtype=np.uint8).reshape(2, 68)
        writer.add_tensor("m", data, raw_dtype=gguf.GGMLQuantizationType.MXFP4)
        writer.add_tensor("w", self.weights)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        self.succeed("quantize", self.path("in.gguf"), "-o", self.path("out.gguf"), "--format", "gguf", "--dtype", "q4_k")
        got, _ = read(self.path("out.gguf"))
        self.assertEqual((got["m"].tensor_type, got["m"].data.tobytes()), (gguf.GGMLQuantizationType.MXFP4, data.tobytes()))

    def test_values_that_are_not_finite(self):
        w = self.weights.copy()
        w[0, :3] = [np.nan, np.inf, -np.inf]
        checkpoint.write(self.path("in"), {"w": Tensor("F32", w.shape, data=w.tobytes())})
        for dtype in EXACT + SEARCHED:
            rows = self.quantize(dtype)["tensors"]
            self.assertEqual(rows[0]["non_finite"], 3)
            self.assertTrue(np.isfinite(dequantized(read(self.path("out.gguf"))[0]["w"])).all())

    def test_values_whose_squares_are_infinite(self):
        w = np.where(self.weights < 0, -3e38, 3e38).astype(np.float32)
        checkpoint.write(self.path("in"), {"w": Tensor("F32", w.shape, data=w.tobytes())})
        for dtype in SEARCHED:
            with self.subTest(dtype):
                self.quantize(dtype)
                restored = dequantized(read(self.path("out.gguf"))[0]["w"])
                self.assertTrue(np.isfinite(restored).all())
                self.assertTrue((np.sign(restored) == np.sign(w)).all())

    def test_fields_and_tokenizer_are_carried_over(self):
        writer = gguf.GGUFWriter(self.path("in.gguf"), "llama")
        writer.add_block_count(2)
        writer.add_token_list(["<s>", "caf\u00e9", "x"])
        writer.add_token_scores([0.0, -1.5, 2.0])
        writer.add_custom_alignment(64)
        writer.add_tensor("blk.0.w", self.weights)
        writer.add_tensor("blk.0.done", gguf.quants.quantize(self.weights, gguf.GGMLQuantizationType.Q8_0),
                          raw_dtype=gguf.GGMLQuantizationType.Q8_0)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        report = json.loads(self.succeed("quantize", self.path("in.gguf"), "-o", self.path("out.gguf"), "--format",
                                         "gguf", "--dtype", "q4_k", "--json"))
        before, old = read(self.path("in.gguf"))
        after, new = read(self.path("out.gguf"))
        for key, field in old.fields.items():
            if not key.startswith("GGUF."):
                self.assertEqual(new.fields[key].contents(), field.contents(), key)
        self.assertEqual(new.fields["general.file_type"].contents(), 14)
        self.assertEqual(after["blk.0.w"].tensor_type, gguf.GGMLQuantizationType.Q4_K)
        self.assertEqual(after["blk.0.done"].data.tobytes(), before["blk.0.done"].data.tobytes())
        self.assertEqual([r.get("kept") for r in report["tensors"]], [None, "is Q8_0 already"])
        self.assertEqual(after["blk.0.w"].data_offset % 64, 0)

    def test_same_bytes_on_any_number_of_threads(self):
        for dtype in ["q4_k", "q6_k", "q8_0"]:
            contents = set()
            for threads in ["1", "2", "5"]:
                self.quantize(dtype, "--threads", threads)
                with open(self.path("out.gguf"), "rb") as f:
                    contents.add(f.read())
            self.assertEqual(len(contents), 1)


class Read(CommandTest):
    def test_every_type_decodes_as_the_package_does(self):
        rng = np.random.default_rng(9)
        writer = gguf.GGUFWriter(self.path("in.gguf"), "llama")
        want = {}
        for name in DECODED:
            kind = gguf.GGMLQuantizationType[name]
            block, size = gguf.GGML_QUANT_SIZES[kind]
            data = rng.integers(0, 256, (6, 512 // block * size), dtype=np.uint8)
            blocks = data.reshape(-1, size)
            halves = {"Q2_K": [80, 82], "Q3_K": [108], "Q6_K": [208], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q4_1": [0, 2],
                      "Q5_1": [0, 2], "MXFP4": []}.get(name, [0])
            for at in halves:  # scales that are finite
                blocks[:, at:at + 2] = rng.standard_normal((len(blocks), 1)).astype(np.float16).view(np.uint8)
            if name == "MXFP4":
                blocks[:, 0] = rng.integers(100, 140, len(blocks))
            writer.add_tensor(name, data, raw_dtype=kind)
            want[name] = gguf.quants.dequantize(data, kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        self.succeed("dequantize", self.path("in.gguf"), "-o", self.path("out"))
        got, _ = checkpoint.read(self.path("out"))
        for name, values in want.items():
            with self.subTest(name):
                self.assertEqual(got[name].shape, [6, 512])
                self.assertEqual(got[name].dtype, "BF16" if name == "MXFP4" else "F32")
                x = np.array(got[name].values(), np.float32).reshape(6, 512)
                np.testing.assert_array_equal(x, values)


def rounded(x):
    return np.sign(x) * np.floor(np.abs(x) + 0.5)


def plain_q4_k(x):
    """Rounding to the range with scales of six bits: what a search starts from."""
    b = x.reshape(-1, 8, 32).astype(np.float64)
    lo, hi = np.minimum(b.min(2), 0), b.max(2)
    s, m = (hi - lo) / 15, -lo
    d, dm = s.max(1, keepdims=True) / 63, m.max(1, keepdims=True) / 63
    d, dm = d.astype(np.float16).astype(float), dm.astype(np.float16).astype(float)
    s = d * rounded(np.divide(s, d, where=d > 0, out=np.zeros_like(s)))
    m = dm * rounded(np.divide(m, dm, where=dm > 0, out=np.zeros_like(m)))
    s, m = s[..., None], m[..., None]
    q = np.clip(rounded(np.divide(b + m, s, where=s > 0, out=np.zeros_like(b))), 0, 15)
    return (s * q - m).reshape(x.shape).astype(np.float32)


def plain_q6_k(x):
    b = x.reshape(-1, 16, 16).astype(np.float64)
    at = np.abs(b).argmax(2)
    s = np.take_along_axis(b, at[..., None], 2)[..., 0] / -32
    biggest = np.take_along_axis(s, np.abs(s).argmax(1)[:, None], 1)
    d = (biggest / -128).astype(np.float16).astype(float)
    s = d * np.clip(rounded(np.divide(s, d, where=d != 0, out=np.zeros_like(s))), -128, 127)
    s = s[..., None]
    q = np.clip(rounded(np.divide(b, s, where=s != 0, out=np.zeros_like(b))), -32, 31)
    return (s * q).reshape(x.shape).astype(np.float32)


def plain_of(dtype):
    return {"q4_k": plain_q4_k, "q6_k": plain_q6_k}[dtype]


def ratio(a, b, where):
    return np.divide(a, b, where=where, out=np.zeros(np.broadcast(a, b).shape))


def searched_q4_k(x):
    """As ggml searches: for each 32 values, 21 steps around the range's scale; of the codes of each, the weighted least
    squares scale and least value; values weigh as much as they are large. Then scales and minima of six bits."""
    b = x.reshape(-1, 32).astype(np.float64)
    weight = np.sqrt((b * b).mean(1, keepdims=True)) + np.abs(b)
    low, high = np.minimum(b.min(1), 0), b.max(1)
    width = np.where(high > low, high - low, 1)[:, None]

    def cost(scale, least, codes):
        return (weight * (scale[:, None] * codes + least[:, None] - b) ** 2).sum(1)

    scale, least = width[:, 0] / 15, low.copy()
    best = cost(scale, least, np.clip(np.rint((b - low[:, None]) * (15 / width)), 0, 15))
    w, wx = weight.sum(1), (weight * b).sum(1)
    for step in range(21):
        codes = np.clip(np.rint((b - low[:, None]) * ((14 + 0.1 * step) / width)), 0, 15)
        wq, wqq, wxq = (weight * codes).sum(1), (weight * codes * codes).sum(1), (weight * codes * b).sum(1)
        determinant = w * wqq - wq * wq
        some = determinant > 0
        a, m = ratio(w * wxq - wx * wq, determinant, some), ratio(wqq * wx - wq * wxq, determinant, some)
        a, m = np.where(m > 0, ratio(wxq, wqq, wqq > 0), a), np.minimum(m, 0)
        found = cost(a, m, codes)
        better = some & (found < best)
        best, scale, least = np.where(better, found, best), np.where(better, a, scale), np.where(better, m, least)
    s, m = np.where(high > low, scale, 0).reshape(-1, 8), -least.reshape(-1, 8)
    six_bits = []
    for of in (s, m):
        most = of.max(1, keepdims=True)
        unit = (most / 63).astype(np.float16).astype(float)
        six_bits.append(unit * np.minimum(63, np.rint(ratio(63 * of, most, most > 0))))
    s, m = (part[..., None] for part in six_bits)
    b = b.reshape(-1, 8, 32)
    codes = np.clip(np.rint(ratio(b + m, s, np.broadcast_to(s > 0, b.shape))), 0, 15)
    return (s * codes - m).reshape(x.shape).astype(np.float32)


def searched_q6_k(x):
    """As ggml searches: for each 16 values, 19 steps around the scale of the largest; of the codes of each, the weighted
    least squares scale; values weigh as their squares. Then scales of eight bits."""
    b = x.reshape(-1, 16).astype(np.float64)
    top = np.take_along_axis(b, np.abs(b).argmax(1)[:, None], 1)
    weight, best, scale = b * b, np.full(len(b), -1.0), np.zeros(len(b))
    for step in [0, *range(-9, 0), *range(1, 10)]:
        codes = np.clip(np.rint(ratio(-(32 + 0.1 * step) * b, top, np.broadcast_to(top != 0, b.shape))), -32, 31)
        xq, qq = (weight * b * codes).sum(1), (weight * codes * codes).sum(1)
        a = ratio(xq, qq, qq > 0)
        better = (qq > 0) & (a * xq > best)
        best, scale = np.where(better, a * xq, best), np.where(better, a, scale)
    s = scale.reshape(-1, 16)
    biggest = np.take_along_axis(s, np.abs(s).argmax(1)[:, None], 1)
    d = (biggest / -128).astype(np.float16).astype(float)
    s = d * np.minimum(127, np.rint(ratio(-128 * s, biggest, np.broadcast_to(biggest != 0, s.shape))))
    s, b = s[..., None], b.reshape(-1, 16, 16)
    codes = np.clip(np.rint(ratio(b, s, np.broadcast_to(s != 0, b.shape))), -32, 31)
    return (s * codes).reshape(x.shape).astype(np.float32)


class Hostile(CommandTest):
    def refuse_bytes(self, says, data):
        with open(self.path("in.gguf"), "wb") as f:
            f.write(data)
        self.refuse(says, "inspect", self.path("in.gguf"))

    def test_headers_that_lie(self):
        head = b"GGUF" + struct.pack("<I", 3)
        name = struct.pack("<Q", 1) + b"w"
        tensor = name + struct.pack("<IQ", 1, 4) + struct.pack("<IQ", 0, 0)
        self.refuse_bytes("has version 9", b"GGUF" + struct.pack("<IQQ", 9, 0, 0))
        self.refuse_bytes("1152921504606846976 tensors", head + struct.pack("<QQ", 2 ** 60, 0))
        self.refuse_bytes("inside its fields", head + struct.pack("<QQ", 0, 1) + struct.pack("<Q", 2 ** 60) + b"x" * 40)
        self.refuse_bytes("has 1099511627776 values", head + struct.pack("<QQ", 0, 1) + name +
                          struct.pack("<IIQ", 9, 8, 2 ** 40) + b"x" * 40)
        self.refuse_bytes("ends at byte", head + struct.pack("<QQ", 1, 0) + tensor + b"\0" * 16)
        self.refuse_bytes("the name occurs twice", head + struct.pack("<QQ", 2, 0) + tensor * 2 + b"\0" * 100)
        self.refuse_bytes("has type 99", head + struct.pack("<QQ", 1, 0) + name + struct.pack("<IQIQ", 1, 4, 99, 0) +
                          b"\0" * 64)
        self.refuse_bytes("not whole blocks of 256", head + struct.pack("<QQ", 1, 0) + name +
                          struct.pack("<IQIQ", 1, 4, 12, 0) + b"\0" * 64)


if __name__ == "__main__":
    unittest.main()
