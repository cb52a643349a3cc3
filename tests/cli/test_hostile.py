"""Files made to do harm: nothing of them steers a terminal, takes long, or is believed when it is damaged."""

import json
import os
import random
import struct
import subprocess
import sys
import unittest
import zipfile

import checkpoint
import torch_file
from checkpoint import Tensor, raw_file
from command import PLANCK, CommandTest

# C1 controls, bidirectional overrides, marks and isolates, invisible ones, separators of lines.
STEERING = ["\x85", "\x9b", "\u202e", "\u2066", "\u200e", "\u061c", "\u200b", "\u2028", "\ufeff", "\x1b", "\x7f", "\n"]
SANITIZED = bool(os.environ.get("PLANCK_SANITIZE"))


def cost(*arguments):
    """(exit code, seconds of CPU, peak bytes, standard error)"""
    code = ("import json, resource, subprocess, sys; r = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, "
            "stderr=subprocess.PIPE); u = resource.getrusage(resource.RUSAGE_CHILDREN); "
            "print(json.dumps([r.returncode, u.ru_utime + u.ru_stime, u.ru_maxrss * 1024, r.stderr.decode()]))")
    done = subprocess.run([sys.executable, "-c", code, PLANCK, *arguments], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


class Terminal(CommandTest):
    def test_names_and_metadata_are_escaped(self):
        names = {f"w{c}{i}": Tensor("F32", [1, 2], [1.0, 2.0]) for i, c in enumerate(STEERING)}
        checkpoint.write(self.path("in"), names, {f"key{c}": f"value{c}" for c in STEERING})
        texts = [self.succeed("inspect", self.path("in")), self.succeed("quantize", self.path("in"), "-o", self.path("q")),
                 self.succeed("inspect", self.path("in"), "--json"), self.succeed("inspect", self.path("q"), "--json")]
        for text in texts:
            for c in STEERING[:-1]:
                self.assertNotIn(c, text, repr(c))
        self.assertIn("\\u202e", texts[0])
        read = json.loads(texts[2])
        self.assertEqual({t["name"] for t in read["tensors"]}, set(names))
        self.assertEqual(read["metadata"], {f"key{c}": f"value{c}" for c in STEERING})

    def test_bytes_that_are_not_utf8(self):
        path = self.path("in").encode() + b"\xff\xc0\x80\xed\xa0\x80"
        checkpoint.write(path, {"w": Tensor("F32", [2, 2], range(4))})
        for arguments in (["inspect", path], ["inspect", path, "--json"], ["quantize", path, "-o", path + b"q", "--json"],
                          ["quantize", path, "-o", path + b"\xfe"], ["inspect", path + b"absent"],
                          ["run", b"\xff", "--in", path, "--out", path + b"o"], [b"\xff\xfe"]):
            done = subprocess.run([PLANCK.encode(), *[a if isinstance(a, bytes) else a.encode() for a in arguments]],
                                  capture_output=True)
            text = (done.stdout + done.stderr).decode()  # raises where it is not UTF-8
            if "--json" in arguments:
                json.loads(done.stdout)
            self.assertGreater(len(text), 10)

    def test_one_long_name_does_not_widen_every_row(self):
        tensors = {"n" * 500000: Tensor("U8", [1], [1]), **{f"t{i}": Tensor("U8", [1], [1]) for i in range(2000)}}
        checkpoint.write(self.path("in"), tensors)
        text = self.succeed("inspect", self.path("in"))
        self.assertLess(len(text), 2000 * 200)
        self.assertLess(max(len(line) for line in text.splitlines()), 300)


class Headers(CommandTest):
    def write(self, header, data=b"1"):
        with open(self.path("in"), "wb") as f:
            f.write(raw_file(header, data))
        return os.path.getsize(self.path("in"))

    def bounded(self, says, size, *arguments):
        code, seconds, peak, stderr = cost(*arguments)
        self.assertEqual(code, 2, stderr)
        self.assertIn(says, stderr)
        self.assertLess(len(stderr), 1000)
        if not SANITIZED:
            self.assertLess(seconds, 5)
            self.assertLess(peak, 5 * size + (64 << 20))

    def test_a_shape_of_49_million_numbers(self):
        size = self.write('{"t":{"dtype":"U8","shape":[' + "1," * 49_000_000 + '1],"data_offsets":[0,1]}}')
        self.bounded("shape has more than 1000 extents", size, "inspect", self.path("in"))

    def test_a_name_of_99_megabytes(self):
        size = self.write('{"' + "n" * 99_000_000 + '":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}')
        self.bounded("the name has 99000000 bytes, at most 1048576 are read", size, "inspect", self.path("in"))

    def test_a_million_tensors(self):
        one = '"t%d":{"dtype":"U8","shape":[1],"data_offsets":[%d,%d]}'
        header = "{" + ",".join(one % (i, i, i + 1) for i in range(1_000_000)) + "}"
        size = self.write(header, bytes(1_000_000))
        self.bounded("the file has more than 262144 tensors", size, "inspect", self.path("in"))

    def test_json_is_written_row_by_row(self):
        one = '"t%d":{"dtype":"U8","shape":[1,1],"data_offsets":[%d,%d]}'
        size = self.write("{" + ",".join(one % (i, i, i + 1) for i in range(200_000)) + "}", bytes(200_000))
        code, seconds, peak, stderr = cost("inspect", self.path("in"), "--json")
        self.assertEqual(code, 0, stderr)
        if not SANITIZED:
            self.assertLess(peak, 5 * size + (64 << 20))
        for header, data in [("{}", b""), ('{"__metadata__":{"a":"[]"}}', b""),
                             ('{"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"[]":'
                              '{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}', b"123")]:
            self.write(header, data)
            text = self.succeed("inspect", self.path("in"), "--json")
            self.assertEqual(text, json.dumps(json.loads(text), indent=2) + "\n")

    def test_other_formats_that_claim_much(self):
        text = struct.pack("<Q", 1)
        kinds = {
            # A million tensors; an array of 30 million empty texts; arrays in arrays in arrays.
            "tensors.gguf": b"GGUF" + struct.pack("<IQQ", 3, 1_000_000, 0) +
                            b"".join(struct.pack("<Q", 7) + b"%07d" % i + struct.pack("<IQIQ", 1, 1, 0, 32 * i)
                                     for i in range(1_000_000)),
            "texts.gguf": b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text + b"k" + struct.pack("<IIQ", 9, 8, 2 ** 22) +
                          bytes(8 << 22),
            "nested.gguf": b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text + b"k" + struct.pack("<I", 9) +
                           struct.pack("<IQ", 9, 1) * 1_000_000,
            "model.safetensors.index.json": json.dumps({"weight_map": {f"t{i}": f"f{i}" for i in range(500_000)}}).encode(),
            "nested.index.json": b"[" * 20_000_000,
            "wide.npy": b"\x93NUMPY\x02\x00" + struct.pack("<I", 20_000_000) + b"{'shape': (" + b"1," * 9_999_990,
        }
        for name, data in kinds.items():
            with self.subTest(name):
                with open(self.path(name), "wb") as f:
                    f.write(data)
                code, seconds, peak, stderr = cost("inspect", self.path(name))
                self.assertIn(code, (0, 2), stderr)
                self.assertLess(len(stderr), 1000)
                if not SANITIZED:
                    self.assertLess(seconds, 5)
                    self.assertLess(peak, 5 * len(data) + (64 << 20))
                os.remove(self.path(name))

    def test_pickles_that_claim_much(self):
        def numbered(n):
            return b"".join(b"r" + struct.pack("<I", i) for i in range(n))

        # 64 extents of 1, and then as many tensors of that shape as there is room for, by what was remembered.
        wide = (b"\x80\x02(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0sX\x03\0\0\0cpuK\x01tQq\x010"
                b"(" + b"K\x01" * 64 + b"tq\x020ctorch._utils\n_rebuild_tensor_v2\nq\x000](" +
                b"h\x00(h\x01K\x00h\x02h\x02tR" * 400_000 + b"e.")
        # A dictionary in every place of a list, thirty times over.
        doubled = b"\x80\x02N" + b"".join(b"q%c0](h%ch%ce" % (i, i, i) for i in range(30)) + b"."
        values = "has more than 2097152 values"
        for name, data, says in [
                ("marks", b"(" * 60_000_000, "has more than 4096 marks at a time"),
                ("values", b"]" * 2_200_000, values), ("more values", b"]" * 60_000_000, values),
                ("tuples", b"N" + b"\x85" * 60_000_000, values),
                ("kept tuples", b"N" + b"\x85\x94" * 30_000_000, values),
                ("memo", b"]" + b"\x94" * 60_000_000, "remembers value 2097152, no checkpoint of"),
                ("places", b"]" + numbered(10_000_000), "remembers value 2097152, no checkpoint of"),
                ("far place", b"]r\xff\xff\xff\xff.", "remembers value 4294967295, no checkpoint of"),
                ("recalls", b"]q\x00" + b"h\x00" * 30_000_000, values),
                ("appended", b"]q\x00]" + b"h\x00a" * 20_000_000, "pickle: "),
                ("wide", wide[2:], "its tensors' names and shapes take more than"),
                ("doubled", doubled[2:], "its tensors' names and shapes take more than")]:
            with self.subTest(name):
                with zipfile.ZipFile(self.path("in.pt"), "w") as archive:
                    archive.writestr("archive/data.pkl", b"\x80\x02" + data)
                    archive.writestr("archive/data/s", bytes(4))
                self.bounded(says, os.path.getsize(self.path("in.pt")), "inspect", self.path("in.pt"))

    def test_a_tensor_of_strides_0_has_no_more_elements_than_its_storage(self):
        storage = torch_file.Storage("0", "F32", bytes(16), 4)
        torch_file.save(self.path("in.pt"), {"w": torch_file.Tensor(storage, [10 ** 6, 10 ** 6], [0, 0])}, [storage])
        self.refuse('tensor "w": has 1000000000000 elements, its storage 4', "inspect", self.path("in.pt"))

    def test_metadata_of_eight_million_keys(self):
        size = self.write('{"__metadata__":{' + ",".join(f'"{i:x}":""' for i in range(8_300_000)) + "}}", b"")
        self.bounded("__metadata__ has more than 262144 keys", size, "inspect", self.path("in"))
        os.mkdir(self.path("parts"))
        for part in range(3):
            keys = ",".join(f'"{part}.{i:x}":""' for i in range(100_000))
            with open(self.path(f"parts/{part}.safetensors"), "wb") as f:
                f.write(raw_file('{"__metadata__":{' + keys + "}}"))
        self.refuse("with the files before it has more than 262144 keys of metadata", "inspect", self.path("parts"))

    def test_schemes_of_megabytes(self):
        for text in ("[" * 20_000_000, '{"a":' * 4_000_000, "[" + "1," * 10_000_000 + "1]"):
            size = self.write(json.dumps({"__metadata__": {"planck.quantized": "2", "planck.quantized:w": text}}), b"")
            self.bounded(f'metadata of tensor "w": has {len(text)} bytes, at most 4096 are read', size, "inspect",
                         self.path("in"))

    def test_a_config_of_megabytes(self):
        os.mkdir(self.path("model"))
        checkpoint.write(self.path("model/model.safetensors"), {"a.weight": Tensor("F32", [2, 32], range(64))})
        with open(self.path("model/config.json"), "w") as f:
            f.write("[" * 20_000_000)
        self.bounded("config.json: has 20000000 bytes, at most 4194304 are read", 20_000_000, "quantize", self.path("model"),
                     "-o", self.path("out"), "--format", "compressed-tensors")
        code, _, peak, stderr = cost("quantize", self.path("model"), "-o", self.path("out.gguf"), "--format", "gguf")
        self.assertEqual((code, stderr), (0, ""))
        if not SANITIZED:
            self.assertLess(peak, 5 * 20_000_000 + (64 << 20))

    def test_a_config_that_nests(self):
        """A tree of it was a hundred times its text, and writing it ended the process."""
        os.mkdir(self.path("model"))
        checkpoint.write(self.path("model/model.safetensors"), {"a.weight": Tensor("F32", [2, 32], range(64))})
        quantize = ["quantize", self.path("model"), "--force", "--format"]
        for deep, code in [(2_000_000, 2), (64, 2), (63, 0)]:
            with open(self.path("model/config.json"), "w") as f:
                f.write('{"model_type": "x", "text": "]]]\\"[[[", "a": ' + "[" * deep + "]" * deep + "}")
            got, _, peak, stderr = cost(*quantize, "compressed-tensors", "-o", self.path("out"))
            self.assertEqual(got, code, stderr)
            self.assertEqual("config.json: nests lists and objects deeper than 64" in stderr, code == 2)
            if not SANITIZED:
                self.assertLess(peak, 5 * 2 * deep + (64 << 20))
            got, _, peak, stderr = cost(*quantize, "gguf", "--dtype", "q8_0", "-o", self.path("out.gguf"))
            self.assertEqual(got, 0, stderr)
            if not SANITIZED:
                self.assertLess(peak, 5 * 2 * deep + (64 << 20))

    def test_a_scheme_that_nests(self):
        for text in ("[" * 4000, '{"a":' * 800, '{"scheme":' + "[" * 8):
            size = self.write(json.dumps({"__metadata__": {"planck.quantized": "2", "planck.quantized:w": text}}), b"")
            self.bounded('metadata of tensor "w": nests lists and objects deeper than 8', size, "inspect", self.path("in"))

    def test_gguf_of_a_million_tensors_or_fields(self):
        def text(i):
            return struct.pack("<Q", 7) + b"%07d" % i

        for tensors, fields in ((1_000_000, 0), (0, 1_000_000)):
            with open(self.path("in.gguf"), "wb") as f:
                f.write(b"GGUF" + struct.pack("<IQQ", 3, tensors, fields))
                f.write(b"".join(text(i) + struct.pack("<IB", 0, 0) for i in range(fields)))
                f.write(b"".join(text(i) + struct.pack("<IQIQ", 1, 0, 0, 0) for i in range(tensors)) + bytes(32))
            self.bounded(f"has {tensors} tensors and {fields} fields, at most 262144 of each",
                         os.path.getsize(self.path("in.gguf")), "inspect", self.path("in.gguf"))

    def test_filters_take_linear_time(self):
        self.write('{"' + "a" * 100_000 + '":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}', bytes(8))
        for pattern in ("(a*)*b", "a*a*a*a*b", "(a|a|aa)*b", "a{1,50}b", "^(.*a){20}b"):
            code, seconds, _, stderr = cost("quantize", self.path("in"), "-o", self.path("q"), "--include", pattern)
            self.assertEqual(code, 2)
            self.assertIn("matches no name", stderr)
            if not SANITIZED:
                self.assertLess(seconds, 5, pattern)

    def test_filters_find_what_they_say(self):
        names = ["layers.0.weight", "layers.10.weight", "lm_head", "embed-x", "a+b", "norm"]
        checkpoint.write(self.path("in"), {n: Tensor("F32", [2, 2], range(4)) for n in names})
        for pattern, want in {"weight$": names[:2], "^l": names[:3], r"\.\d\.": names[:1], r"layers\.(0|10)\.": names[:2],
                              "[[:digit:]]{2}": [names[1]], "a[+]b|norm": names[4:], "[^a-z._0-9]": [names[3], names[4]],
                              "e{1}(m|h)": [names[3]], "o?rm$": ["norm"], ".*": names, "(ay|or)+": names[:2] + ["norm"]}.items():
            rows = json.loads(self.succeed("quantize", self.path("in"), "-o", self.path("q"), "--force", "--json",
                                           "--include", pattern))["tensors"]
            self.assertEqual(sorted(r["name"] for r in rows if r["quantized"]), sorted(want), pattern)
        for pattern in ("(", ")", "[a", "a{2", "a{3,2}", "*a", "\\", r"(a)\1", "[[:nothing:]]", "a{5000}", "(((a{99}){99}){99})"):
            self.refuse("is not a regular expression", "quantize", self.path("in"), "-o", self.path("q2"), "--include", pattern)


    def test_filters_of_any_length(self):
        checkpoint.write(self.path("in"), {"w": Tensor("F32", [2, 2], range(4))})
        for pattern in ("|" * 120_000, "a|" * 60_000 + "b", "(" * 60_000 + ")" * 60_000, "x" * 120_000,
                        "((((){1000}){1000}){1000}){1000}", "((){1000}|){1000}" * 500):
            code, seconds, _, stderr = cost("quantize", self.path("in"), "-o", self.path("q"), "--include", pattern)
            self.assertEqual((code, stderr.count("\n")), (2, 1), pattern[:40])
            self.assertIn("is not a regular expression", stderr)
            self.assertLess(len(stderr), 1000)
            if not SANITIZED:
                self.assertLess(seconds, 5, pattern[:40])


class Wide(CommandTest):
    """Memory does not depend on the number of channels either."""

    def test_millions_of_channels(self):
        checkpoint.write_sparse(self.path("in"), {"w": [2, 4_000_000]})
        for method in ("rtn", "mse"):
            code, _, peak, stderr = cost("quantize", self.path("in"), "-o", self.path(method), "--axis", "1", "--method", method)
            self.assertEqual(code, 0, stderr)
            if not SANITIZED:
                self.assertLess(peak, 200 << 20, method)
        checkpoint.write_sparse(self.path("in"), {f"w{i}": [2, 130_000] for i in range(200)})
        code, _, peak, stderr = cost("quantize", self.path("in"), "-o", self.path("q"), "--axis", "1", "--method", "mse")
        self.assertEqual(code, 0, stderr)
        if not SANITIZED:
            self.assertLess(peak, 200 << 20)

    def test_channels_in_parts_have_the_scales_of_all(self):
        channels, rows = 600_000, 3
        values = [((i * 7919) % 2003 - 1001) / 500 for i in range(rows * channels)]
        checkpoint.write(self.path("in"), {"w": Tensor("F32", [rows, channels], values)})
        for options in ([], ["--affine"], ["--method", "mse"]):
            contents = set()
            for threads in ("1", "2"):
                row = json.loads(self.succeed("quantize", self.path("in"), "-o", self.path("q"), "--force", "--json", "--axis",
                                              "1", "--threads", threads, *options))["tensors"]
                with open(self.path("q"), "rb") as f:
                    contents.add(f.read())
            self.assertEqual((len(contents), len(row)), (1, 1))
            self.assertGreater(row[0]["sqnr_db"], 40)
        self.succeed("quantize", self.path("in"), "-o", self.path("q"), "--force", "--axis", "1")
        scale = checkpoint.read(self.path("q"))[0]["w_scale"].values()
        self.assertEqual(len(scale), channels)
        for c in [0, 1, 262_143, 262_144, 524_288, channels - 1]:
            most = max(abs(checkpoint.f32(values[r * channels + c])) for r in range(rows))
            self.assertEqual(scale[c], checkpoint.f32(most / 127))


class Truncated(CommandTest):
    def test_an_input_made_shorter_while_it_is_read(self):
        for command in (["quantize"], ["run", "neg"]):
            with self.subTest(command):
                self.truncate_while(command)

    def truncate_while(self, command):
        if command[0] == "quantize":
            checkpoint.write_sparse(self.path("in"), {f"w{i}": [4096, 1024] for i in range(48)})
            arguments = [self.path("in"), "-o", self.path("q")]
        else:
            checkpoint.write_sparse(self.path("in"), {"x": [65536, 2048]})
            arguments = ["--in", self.path("in"), "--out", self.path("q")]
        process = subprocess.Popen([PLANCK, *command, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while self.path("in") not in open(f"/proc/{process.pid}/maps").read():
            self.assertIsNone(process.poll())
        os.truncate(self.path("in"), 8192)
        _, stderr = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 2, stderr)
        self.assertIn(self.path("in"), stderr)
        self.assertEqual(stderr.count("\n"), 1)
        self.assertEqual(self.names(), ["in"])


class Damaged(CommandTest):
    def test_a_flipped_bit_of_a_trained_model_is_refused(self):
        self.succeed("demo", "--out", self.path("d"), "--epochs", "1", "--qat-epochs", "1")
        model = self.path("d/model-int4.safetensors")
        self.succeed("predict", model, "digits:0")
        with open(model, "rb") as f:
            good = f.read()
        rng = random.Random(1)
        header = 8 + struct.unpack("<Q", good[:8])[0]
        spots = [rng.randrange(header, len(good)) for _ in range(12)] + [rng.randrange(8, header) for _ in range(12)]
        for spot in spots:
            bad = bytearray(good)
            bad[spot] ^= 1 << rng.randrange(8)
            with open(self.path("bad"), "wb") as f:
                f.write(bad)
            done = self.run_planck("predict", self.path("bad"), "digits:0")
            padding = spot < header and good[spot:spot + 1] == b" "  # no part of what the file says
            if not padding:
                self.assertEqual(done.returncode, 2, spot)
            if spot >= header:
                self.assertIn("is damaged", done.stderr)

    def test_a_data_file_cannot_claim_any_size(self):
        os.mkdir(self.path("data"))
        for part in ("train", "t10k"):
            for width, label in ((100000, 1), (8, 1)):
                with open(self.path(f"data/{part}-images-idx3-ubyte"), "wb") as f:
                    f.write(struct.pack(">IIII", 0x803, 2, 1, 100000) + bytes(200000))
                with open(self.path(f"data/{part}-labels-idx1-ubyte"), "wb") as f:
                    f.write(struct.pack(">II", 0x801, 2) + bytes([0, label]))
        line = self.refuse("the demo takes up to 256 x 256", "demo", "--data", self.path("data"), "--out", self.path("d"))
        self.assertIn("1 x 100000", line)


if __name__ == "__main__":
    unittest.main()
