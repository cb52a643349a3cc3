"""What a checkpoint may come as: files, folders, an index; npy and PyTorch's files; narrow floats."""

import collections
import json
import os
import struct
import unittest
import zipfile

import checkpoint
import torch_file
from checkpoint import Tensor
from command import CommandTest


def weight(rows, columns, seed=1):
    return [((i * 7919 + seed * 104729) % 2003 - 1001) / 500 for i in range(rows * columns)]


def write_npy(path, descr, shape, data, fortran=False):
    header = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {tuple(shape)}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data)


class Sources(CommandTest):
    def setUp(self):
        super().setUp()
        self.tensors = {"a.weight": Tensor("F32", [4, 6], weight(4, 6)), "b.weight": Tensor("BF16", [2, 8], weight(2, 8)),
                        "b.bias": Tensor("F32", [8], weight(1, 8))}
        checkpoint.write(self.path("whole"), self.tensors, {"format": "pt"})

    def quantized(self, *inputs, out="q", options=()):
        self.succeed("quantize", *inputs, "-o", self.path(out), "--force", *options)
        with open(self.path(out), "rb") as f:
            return f.read()

    def make_folder(self, name="model", index=True):
        folder = self.path(name)
        os.mkdir(folder)
        files = {"a.weight": "model-00001-of-00002.safetensors", "b.weight": "model-00002-of-00002.safetensors",
                 "b.bias": "model-00002-of-00002.safetensors"}
        for file in sorted(set(files.values())):
            checkpoint.write(os.path.join(folder, file),
                             {n: t for n, t in self.tensors.items() if files[n] == file}, {"format": "pt"})
        if index:
            with open(os.path.join(folder, "model.safetensors.index.json"), "w") as f:
                json.dump({"metadata": {"total_size": 1}, "weight_map": files}, f)
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump({"model_type": "llama", "hidden": [1, 2]}, f)
        with open(os.path.join(folder, "tokenizer.json"), "w") as f:
            f.write('{"version": "1.0"}')
        return folder

    def test_shards_are_one_checkpoint(self):
        want = self.quantized(self.path("whole"))
        folder = self.make_folder()
        shards = sorted(os.path.join(folder, n) for n in os.listdir(folder) if n.endswith("safetensors"))
        index = os.path.join(folder, "model.safetensors.index.json")
        self.assertEqual(self.quantized(*shards), want)
        self.assertEqual(self.quantized(folder, out="q.safetensors"), want)
        self.assertEqual(self.quantized(index, out="q.safetensors"), want)

    def test_a_folder_becomes_a_folder(self):
        self.succeed("quantize", self.make_folder(), "-o", self.path("out"), "--shard-size", "40B")
        names = sorted(os.listdir(self.path("out")))
        shards = [n for n in names if n.endswith(".safetensors")]
        self.assertGreater(len(shards), 1)
        self.assertEqual(names[:1] + names[-1:], ["config.json", "tokenizer.json"])
        with open(os.path.join(self.path("out"), "model.safetensors.index.json")) as f:
            index = json.load(f)["weight_map"]
        found = {}
        for shard in shards:
            tensors, metadata = checkpoint.read(os.path.join(self.path("out"), shard))
            self.assertEqual({n: s for n, s in index.items() if s == shard}, {n: shard for n in tensors})
            found.update(tensors)
        self.quantized(self.path("whole"))
        self.assertEqual(found, checkpoint.read(self.path("q"))[0])
        self.succeed("dequantize", self.path("out"), "-o", self.path("back.safetensors"))
        self.succeed("dequantize", self.path("q"), "-o", self.path("back2.safetensors"))
        self.assertEqual(checkpoint.read(self.path("back.safetensors"))[0],
                         checkpoint.read(self.path("back2.safetensors"))[0])
        self.refuse("is a folder with files in it", "quantize", self.path("whole"), "-o", self.path("out"),
                    "--shard-size", "1MB")

    def test_an_index_that_lies(self):
        folder = self.make_folder()
        path = os.path.join(folder, "model.safetensors.index.json")
        good = {"a.weight": "model-00001-of-00002.safetensors", "b.weight": "model-00002-of-00002.safetensors",
                "b.bias": "model-00002-of-00002.safetensors"}
        cases = [({**good, "c": "model-00001-of-00002.safetensors"}, 'tensor "c" should be in'),
                 ({**good, "b.bias": "model-00001-of-00002.safetensors"}, 'tensor "b.bias" should be in'),
                 ({k: v for k, v in good.items() if k != "b.bias"}, 'lacks tensor "b.bias"'),
                 ({**good, "c": "../whole"}, "is not a file's name"), ({**good, "c": "absent"}, "No such file"),
                 ({**good, "c": 1}, "has no file's name"), ({}, "is empty")]
        for weight_map, says in cases:
            with open(path, "w") as f:
                json.dump({"weight_map": weight_map}, f)
            self.refuse(says, "inspect", folder)
        for text, says in [("{}", "weight_map"), ("[", "not valid JSON"), ('{"weight_map": {', "not valid JSON"),
                           ("[" * 100000, "nests too deep")]:
            with open(path, "w") as f:
                f.write(text)
            self.refuse(says, "inspect", path)

    def test_a_folder_without_one_of_its_files_is_no_checkpoint(self):
        folder = self.make_folder(index=False)
        for name in ("model-00002-of-00002.safetensors", "tokenizer.json"):
            path = os.path.join(folder, name)
            os.rename(path, self.path("elsewhere"))
            os.symlink("nowhere", path)
            self.refuse("cannot open: No such file", "quantize", folder, "-o", self.path("q"))
            os.remove(path)
            os.mkfifo(path)
            self.refuse("is a device or a pipe", "quantize", folder, "-o", self.path("q"))
            os.remove(path)
            os.rename(self.path("elsewhere"), path)
            self.assertNotIn("q", self.names())
        os.mkdir(os.path.join(folder, "original.safetensors"))  # folders are nobody's
        self.succeed("quantize", folder, "-o", self.path("q"))

    def test_names_occur_once(self):
        self.refuse('tensor "a.weight" is also in', "quantize", self.path("whole"), self.path("whole"), "-o",
                    self.path("q"))

    def test_npy(self):
        values = weight(3, 4)
        write_npy(self.path("w.npy"), "<f4", [3, 4], struct.pack("<12f", *values))
        turned = [values[4 * r + c] for c in range(4) for r in range(3)]
        os.mkdir(self.path("f"))
        write_npy(os.path.join(self.path("f"), "w.npy"), "<f4", [3, 4], struct.pack("<12f", *turned), True)
        checkpoint.write(self.path("same"), {"w": Tensor("F32", [3, 4], values)})
        want = self.quantized(self.path("same"))
        self.assertEqual(self.quantized(self.path("w.npy")), want)
        self.assertEqual(self.quantized(os.path.join(self.path("f"), "w.npy")), want)

    def test_eight_bit_floats_are_carried_through_and_restored(self):
        checkpoint.write(self.path("in"), {"e": Tensor("F8_E4M3", [256], list(range(256))),
                                           "w": Tensor("F32", [2, 2], [1, 2, 3, 4])})
        self.quantized(self.path("in"))
        self.assertEqual(checkpoint.read(self.path("q"))[0]["e"].data, bytes(range(256)))
        self.succeed("dequantize", self.path("in"), "-o", self.path("r"))
        got = checkpoint.read(self.path("r"))[0]["e"]
        self.assertEqual(got.dtype, "BF16")
        for bits, value in enumerate(got.values()):
            exponent, mantissa = bits >> 3 & 15, bits & 7
            if bits & 127 == 127:
                self.assertNotEqual(value, value)
                continue
            want = mantissa * 2.0 ** -9 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10)
            self.assertEqual(value, -want if bits & 128 else want)

    def test_the_other_eight_bit_floats(self):
        def e5m2(bits):  # IEEE's rules, five bits of exponent
            sign, exponent, mantissa = -1.0 if bits & 128 else 1.0, bits >> 2 & 31, bits & 3
            if exponent == 31:
                return sign * float("inf") if mantissa == 0 else float("nan")
            return sign * (mantissa * 2.0 ** -16 if exponent == 0 else (4 + mantissa) * 2.0 ** (exponent - 17))

        def e8m0(bits):
            return float("nan") if bits == 255 else 2.0 ** (bits - 127)

        for dtype, value in (("F8_E5M2", e5m2), ("F8_E8M0", e8m0)):
            header = json.dumps({"e": {"dtype": dtype, "shape": [256], "data_offsets": [0, 256]},
                                 "w": {"dtype": "F32", "shape": [2, 2], "data_offsets": [256, 272]}})
            with open(self.path("in"), "wb") as f:
                f.write(checkpoint.raw_file(header, bytes(range(256)) + bytes(16)))
            self.succeed("dequantize", self.path("in"), "-o", self.path("r"), "--force")
            got = checkpoint.read(self.path("r"))[0]["e"].values()
            self.assertEqual([repr(v) for v in got], [repr(value(b)) for b in range(256)], dtype)
            self.assertIn(bytes(range(256)), self.quantized(self.path("in")))

    def test_mxfp4_is_carried_through(self):
        pair = {"m_blocks": Tensor("U8", [2, 3, 16], data=bytes(range(96))),
                "m_scales": Tensor("U8", [2, 3], data=bytes([127, 128, 120, 130, 127, 90]))}
        checkpoint.write(self.path("in"), {**pair, "w": Tensor("F32", [2, 2], range(4))})
        self.quantized(self.path("in"))
        self.assertEqual({n: t for n, t in checkpoint.read(self.path("q"))[0].items() if n in pair}, pair)
        self.succeed("dequantize", self.path("q"), "-o", self.path("r"))
        self.assertEqual({n: t for n, t in checkpoint.read(self.path("r"))[0].items() if n in pair}, pair)

    def test_files_are_no_larger_than_shard_size_says(self):
        tensors = {f"layers.{i}.weight": Tensor("F32", [8, 32], weight(8, 32, i)) for i in range(24)}
        checkpoint.write(self.path("in"), tensors, {"note": "x" * 100})
        for options in (["--affine"], ["--format", "gguf"], ["--format", "compressed-tensors"]):
            for size in (2000, 4000, 100_000):
                with self.subTest(options=options, size=size):
                    out = self.path(f"{options[-1]}-{size}")
                    arguments = ["quantize", self.path("in"), "-o", out, "--json", "--shard-size", f"{size}B", *options]
                    said = json.loads(self.succeed(*arguments, "--dry-run"))["file_bytes_after"]
                    self.assertEqual(json.loads(self.succeed(*arguments))["file_bytes_after"], said)
                    sizes = [os.path.getsize(os.path.join(out, n)) for n in os.listdir(out) if not n.endswith(".json")]
                    self.assertEqual(sum(sizes), said)
                    self.assertLessEqual(max(sizes), size)
                    if len(sizes) > 2:  # nor much smaller
                        self.assertGreater(sum(sizes) / len(sizes), size * 0.6)
        # A file says of quantized tensors what it holds itself: each can be read alone.
        self.assertGreater(len(os.listdir(self.path("--affine-2000"))), 5)
        for name in os.listdir(self.path("--affine-2000")):
            if not name.endswith(".json"):
                self.succeed("dequantize", os.path.join(self.path("--affine-2000"), name), "-o", self.path("r"), "--force")

    def test_dequantize_writes_shards(self):
        folder = self.make_folder()
        self.succeed("quantize", folder, "-o", self.path("small"))
        self.succeed("dequantize", self.path("small"), "-o", self.path("whole.safetensors"))
        self.succeed("dequantize", self.path("small"), "-o", self.path("back"), "--shard-size", "250B")
        shards = sorted(n for n in os.listdir(self.path("back")) if n.endswith(".safetensors"))
        self.assertGreater(len(shards), 1)
        self.assertEqual(sorted(set(os.listdir(self.path("back"))) - set(shards)),
                         ["config.json", "model.safetensors.index.json", "tokenizer.json"])
        found = {}
        for shard in shards:
            found.update(checkpoint.read(os.path.join(self.path("back"), shard))[0])
        self.assertEqual(found, checkpoint.read(self.path("whole.safetensors"))[0])
        self.refuse('--shard-size "5kb" is not a size', "dequantize", self.path("small"), "-o", self.path("b2"),
                    "--shard-size", "5kb")

    def test_mxfp4(self):
        blocks, scales = bytes((7 * i) & 255 for i in range(2 * 3 * 16)), bytes([127, 128, 120, 130, 127, 90])
        checkpoint.write(self.path("in"), {"m_blocks": Tensor("U8", [2, 3, 16], data=blocks),
                                           "m_scales": Tensor("U8", [2, 3], data=scales)})
        self.succeed("dequantize", self.path("in"), "-o", self.path("r"))
        got = checkpoint.read(self.path("r"))[0]
        values = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]
        want = [values[n] * 2.0 ** (scales[i // 16] - 127) for i, b in enumerate(blocks) for n in (b & 15, b >> 4)]
        self.assertEqual((list(got), got["m"].shape, got["m"].values()), (["m"], [2, 96], want))


class TorchFiles(CommandTest):
    def setUp(self):
        super().setUp()
        self.values = weight(4, 6)
        self.storage = torch_file.Storage("0", "F32", torch_file.floats(*self.values, 9.0, 8.0), 4)
        self.half = torch_file.Storage("1", "BF16", checkpoint.pack("BF16", weight(2, 8)), 2)

    def state(self):
        state = collections.OrderedDict()
        state["w"] = torch_file.Parameter(torch_file.Tensor(self.storage, [4, 6]))
        state["turned"] = torch_file.Tensor(self.storage, [6, 4], [1, 6])
        state["tail"] = torch_file.Tensor(self.storage, [2], offset=24)
        state["half"] = torch_file.Tensor(self.half, [2, 8])
        return state

    def read_back(self, state):
        torch_file.save(self.path("in.pt"), state, [self.storage, self.half])
        rows = {t["name"]: t for t in json.loads(self.succeed("inspect", self.path("in.pt"), "--json"))["tensors"]}
        self.succeed("quantize", self.path("in.pt"), "-o", self.path("q"), "--force")
        return rows, checkpoint.read(self.path("q"))[0]

    def test_what_torch_saves_is_read(self):
        rows, _ = self.read_back(self.state())
        self.assertEqual({n: (r["dtype"], r["shape"]) for n, r in rows.items()},
                         {"w": ("F32", [4, 6]), "turned": ("F32", [6, 4]), "tail": ("F32", [2]), "half": ("BF16", [2, 8])})
        turned = [self.values[6 * c + r] for r in range(6) for c in range(4)]
        checkpoint.write(self.path("same"), {"w": Tensor("F32", [4, 6], self.values),
                                             "turned": Tensor("F32", [6, 4], turned), "tail": Tensor("F32", [2], [9.0, 8.0]),
                                             "half": Tensor("BF16", [2, 8], weight(2, 8))})
        self.succeed("quantize", self.path("same"), "-o", self.path("q2"))
        self.assertEqual(checkpoint.read(self.path("q")), checkpoint.read(self.path("q2")))

    def test_nested_dictionaries_and_what_is_no_tensor(self):
        rows, _ = self.read_back({"model": dict(self.state()), "epoch": 3, "history": [0.5, None, True]})
        self.assertEqual(sorted(rows), ["model.half", "model.tail", "model.turned", "model.w"])
        told = json.loads(self.succeed("inspect", self.path("in.pt"), "--json"))
        self.assertEqual(told["left_out"], {"count": 4, "names": ["epoch", "history.0", "history.1", "history.2"]})
        self.assertIn('4 entries are no tensor and left out: "epoch", "history.0", "history.1", "history.2"\n',
                      self.succeed("inspect", self.path("in.pt")))
        self.assertIn("4 entries are no tensor", self.succeed("quantize", self.path("in.pt"), "--dry-run"))
        self.read_back({"w": torch_file.Tensor(self.storage, [4, 6]), "lr": 0.5})
        self.assertIn('1 entry is no tensor and left out: "lr"\n', self.succeed("inspect", self.path("in.pt")))
        self.read_back({"w": torch_file.Tensor(self.storage, [4, 6]), "a\x1bb": 1, "steps": list(range(30))})
        self.assertIn('left out: "a\\x1bb", "steps.0", ', self.succeed("inspect", self.path("in.pt")))
        self.assertIn('"steps.14" and 15 more\n', self.succeed("inspect", self.path("in.pt")))
        self.read_back({"w": torch_file.Tensor(self.storage, [4, 6])})
        self.assertNotIn("left_out", self.succeed("inspect", self.path("in.pt"), "--json"))

    def test_lists_of_tensors(self):
        state = [torch_file.Tensor(self.storage, [4, 6]), 3, (torch_file.Tensor(self.half, [2, 8]), {"deep": [
            torch_file.Tensor(self.storage, [2], offset=24)]})]
        rows, _ = self.read_back(state)
        self.assertEqual({n: r["shape"] for n, r in rows.items()}, {"0": [4, 6], "2.0": [2, 8], "2.1.deep.0": [2]})
        self.assertEqual([r["shape"] for r in self.read_back({"w": [torch_file.Tensor(self.storage, [4, 6])]})[0].values()],
                         [[4, 6]])

    def test_one_dictionary_under_two_names(self):
        state = dict(self.state())
        rows, _ = self.read_back({"model": state, "ema": state})
        self.assertEqual(sorted(rows), sorted(f"{a}.{b}" for a in ("model", "ema") for b in state))

    def test_nothing_is_executed(self):
        class Evil:
            def __reduce__(self):
                return os.system, (f"touch {self.target}",)

        evil = Evil()
        evil.target = self.path("executed")
        torch_file.save(self.path("in.pt"), {"w": evil}, [])
        message = self.refuse("is not on the list of what may be in a checkpoint; nothing was executed", "inspect",
                              self.path("in.pt"))
        self.assertIn('"system"', message)
        self.assertNotIn("executed", self.names())

    def test_files_that_lie(self):
        def refused(says, state, storages=(), **how):
            torch_file.save(self.path("in.pt"), state, storages, **how)
            self.refuse(says, "inspect", self.path("in.pt"))

        refused("is not in the archive", self.state(), [])
        refused("reaches element 27, its storage has 26", {"w": torch_file.Tensor(self.storage, [4, 7])}, [self.storage])
        refused("reach beyond 2^63", {"w": torch_file.Tensor(self.storage, [2, 2], [2 ** 62, 2 ** 62])}, [self.storage])
        refused("is compressed", self.state(), [self.storage, self.half], compression=zipfile.ZIP_DEFLATED)
        refused('byteorder is "big"', self.state(), [self.storage, self.half], byteorder="big")
        refused("ends at byte", None, data=b"\x80\x02}q\x00X\xff\x00\x00\x00")
        refused("takes from an empty stack", None, data=b"\x80\x020.")
        refused("opcode 0x69", None, data=b"\x80\x02(i.")
        inside = {}
        inside["again"] = inside
        refused("has a dictionary or a list inside itself", inside)
        refused("adds to what is not a list", None, data=b"\x80\x02)Na.")
        deep = []
        for _ in range(40):
            deep = [deep]
        refused("nests dictionaries and lists 33 deep, 32 are read", deep)
        with open(self.path("in.pt"), "wb") as f:
            f.write(b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.")
        self.refuse("PyTorch's format before 1.6", "inspect", self.path("in.pt"))


if __name__ == "__main__":
    unittest.main()
