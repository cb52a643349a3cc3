"""The command line as people expect it: how much it says, what it offers, what it says when it is misread."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time
import unittest

import checkpoint
from checkpoint import Tensor
from command import PLANCK, CommandTest


def on_terminal(columns, *arguments):
    """What a terminal of so many columns is sent."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen([PLANCK, *arguments], stdout=follower, stderr=follower)
    os.close(follower)
    sent = b""
    try:
        while piece := os.read(leader, 65536):
            sent += piece
    except OSError:  # how the end of a terminal reads
        pass
    os.close(leader)
    return process.wait(), sent.decode()


WITHOUT_ATTRIBUTES = set("""
    neg abs sign square sqrt rsqrt reciprocal exp expm1 log log1p sin cos tanh sigmoid relu gelu silu softplus softsign erf
    floor ceil round trunc add sub mul div maximum minimum pow atan2 gelu_backward relu_backward eq ne lt le gt ge logical_and logical_or
    logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_not shift_left shift_right where copy mask_select mask_scatter
    nonzero""".split())
KNOWN_ATTRIBUTES = {  # with their defaults
    "quantize_per_group": {"dtype": "s8", "q_min": "", "q_max": "", "math": "divide", "group": "128"},
    "embedding": {"padding_idx": "-1"}, "grid_sample": {"mode": "bilinear", "padding": "zeros", "align_corners": "false"},
    "sum": {"axes": "all"}, "softmax": {"axis": "-1"}, "matmul": {"math": "", "activation": "none"}, "cast": {"dtype": "f32"},
    "conv2d": {"stride": "1", "padding": "0", "dilation": "1", "groups": "1", "math": ""},
    "max_pool2d": {"kernel": "", "stride": "0", "padding": "0", "dilation": "1", "ceil_mode": "false"},
    "clamp": {"min": "-inf", "max": "inf"}, "fill": {"value": "0", "shape": "1", "dtype": "f32"},
    "topk": {"axis": "-1", "k": "", "largest": "true", "sorted": "true"}, "one_hot": {"classes": "", "dtype": "i64"},
    "slice": {"axis": "0", "start": "0", "stop": "", "step": "1"}, "cat": {"axis": "0"}, "split": {"axis": "0", "sizes": ""}}


class Usage(CommandTest):
    def setUp(self):
        super().setUp()
        self.tensors = {"w": Tensor("F32", [8, 16], range(128)), "long" * 20: Tensor("BF16", [8, 16], range(128)),
                        "norm": Tensor("F32", [16], range(16)), "ids": Tensor("I64", [2], [1, 2])}
        checkpoint.write(self.path("in"), self.tensors)

    def quantize(self, *more):
        return ["quantize", self.path("in"), "-o", self.path("q"), "--force", *more]

    def test_quiet_and_verbose(self):
        for arguments in (self.quantize("-q"), self.quantize("--quiet"), ["-q", *self.quantize()], ["ops", "-q"],
                          ["inspect", self.path("in"), "-q"]):
            self.assertEqual(self.succeed(*arguments), "")
        checkpoint.write(self.path("x"), {"x": Tensor("F32", [2, 3], range(6))})
        run = ["run", "neg", "--in", self.path("x"), "--out", self.path("y"), "--force"]
        self.assertEqual(self.succeed(*run, "-q"), "")
        for arguments in (self.quantize(), ["inspect", self.path("in")], ["ops"], ["ops", "^exp$"], run):
            self.assertTrue(json.loads(self.succeed(*arguments, "-q", "--json")), arguments)
        done = self.run_planck(*self.quantize("-v"))
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"^planck \d+\.\d+\.\d+: [0-9.]+ s, [0-9.]+ s of CPU, \d+ MB of memory at most\n$")
        self.refuse("--verbose", "ops", "-q", "-v")

    def test_output_that_is_lost_is_said(self):
        """Whether it is shorter than a buffer or longer: one line, and no exit code of 0."""
        checkpoint.write(self.path("many"), {f"layer.{i}.weight": Tensor("F32", [2, 4], range(8)) for i in range(400)})
        for arguments, code in [(["ops", "--json"], 2), (["ops", "--names"], 2), (["--help"], 2), (["--version"], 2),
                                (["completion", "fish"], 2), (["inspect", self.path("many"), "--json"], 2),
                                (["inspect", self.path("many")], 2), (["inspect", self.path("in"), "--json"], 2),
                                (["quantize", self.path("many"), "-o", self.path("q"), "--force", "--json"], 3),
                                (["quantize", self.path("many"), "-o", self.path("q"), "--force"], 3)]:
            with self.subTest(arguments), open("/dev/full", "w") as full:
                done = subprocess.run([PLANCK, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=600)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertEqual(done.stderr, "planck: cannot write to standard output\n")

    def test_numbers_within_words_are_read_strictly(self):
        x = ["run", "neg", "--in", self.path("in"), "--out", self.path("y")]
        for size in ("05KB", "+5KB", "-5KB", "0", "0KB", "5 KB", "0x5KB", "5kb", "1e3", "5KBB", "B", "KB", "99999999999999999999GB",
                     "9223372036854775808", "9300000TB"):
            self.refuse("--shard-size", *self.quantize("--shard-size", size))
        for bytes in ("012", "+1", "-1", "0x10", "1e3", ""):
            self.refuse("--prefer max_workspace", *x, "--prefer", "max_workspace=" + bytes)
        for device in ("cuda:00", "cuda:01", "cuda:+0", "cuda:-1", "cuda:", "cuda:0x0", "cuda:4294967296"):
            self.refuse("must be cpu, cuda or cuda:N", *self.quantize("--device", device))
        for picture in ("digits:007", "digits:+7", "digits:-1", "digits:", "digits:7 "):
            self.refuse("after digits: comes a number", "predict", self.path("in"), picture)

    def test_version_and_help(self):
        self.assertEqual(self.succeed("-V"), self.succeed("--version"))
        self.assertEqual(self.succeed("help"), self.succeed("--help"))
        self.assertEqual(self.succeed("help", "quantize"), self.succeed("quantize", "--help"))
        self.refuse("no command is called quantise (did you mean quantize?); there are: ", "help", "quantise")

    def test_did_you_mean(self):
        self.refuse("did you mean inspect?", "insepct", self.path("in"))
        self.refuse("did you mean --scheme?", *self.quantize("--schema", "per-group"))
        self.refuse("did you mean --include?", *self.quantize("--inlcude=x"))
        self.refuse("did you mean softmax?", "run", "sofmax", "--in", self.path("in"), "--out", self.path("o"))
        self.refuse("did you mean quantize_per_group?", "run", "--list", "quantise_per_group")
        self.assertNotIn("did you mean", self.refuse("no command is called xylophone", "xylophone"))

    def test_ops_by_pattern_and_names(self):
        names = self.succeed("ops", "--names").splitlines()
        self.assertEqual(names, [op["op"] for op in json.loads(self.succeed("ops", "--json"))])
        self.assertIn("split", names)
        some = self.succeed("ops", "^quantize.*group", "--names").split()
        self.assertEqual(some, ["quantize_per_group", "quantize_per_group_backward"])
        self.assertEqual([op["op"] for op in json.loads(self.succeed("ops", "^quantize.*group", "--json"))], some)
        self.refuse("PATTERN zzz matches no op", "ops", "zzz")

    def test_ops_say_what_cuda_kernels_are_compiled_for(self):
        """Each kernel of CUDA, for what this build has code for; warpgroups for 90a alone."""
        version, text = self.succeed("--version"), self.succeed("ops", "^matmul$")
        found = re.search("CUDA kernels for (.+)\n", version)
        inside = found.group(1).split(",") if found else []
        self.assertIn(f"\nCUDA kernels for {found.group(1)}\n" if found else "\nthis build has no CUDA kernels\n", text)
        (matmul,) = json.loads(self.succeed("ops", "^matmul$", "--json"))
        for kernel in matmul["kernels"]:
            expected = [a for a in inside if kernel["kernel"] != "cuda:warpgroups" or a.startswith("90a")]
            self.assertEqual(kernel.get("architectures"), expected if kernel["device"] == "cuda" else None, kernel["kernel"])

    def test_ops_list_their_attributes(self):
        """Of every op: which have none is known, and what some of each family have."""
        ops = {op["op"]: op["attributes"] for op in json.loads(self.succeed("ops", "--json"))}
        self.assertEqual({op for op, attributes in ops.items() if not attributes}, WITHOUT_ATTRIBUTES)
        for op, attributes in ops.items():
            names = [a["name"] for a in attributes]
            self.assertEqual(len(set(names)), len(names), op)
            for a in attributes:
                self.assertRegex(a["name"], r"^[a-z][a-z0-9_]*$", op)
                self.assertTrue(a["help"], (op, a["name"]))
                self.assertIsInstance(a["default"], str, (op, a["name"]))
        for op, want in KNOWN_ATTRIBUTES.items():
            self.assertEqual({a["name"]: a["default"] for a in ops[op]}, want, op)
            listed = self.succeed("run", "--list", op)
            for name in want:
                self.assertRegex(listed, rf"(?m)^  {name} ", op)

    def test_dry_run(self):
        before = self.names()
        text = self.succeed("quantize", self.path("in"), "-o", self.path("q"), "--dry-run", "--dtype", "s4")
        self.assertEqual(self.names(), before)
        self.assertRegex(text, r"(?m)^per-channel 0 s4 +2 +768 B +")
        self.assertRegex(text, r"(?m)^kept: not a float +1 +16 B +16 B$")
        self.assertRegex(text, r"(?m)^kept: rank 1 is below 2 +1 +64 B +64 B$")
        planned = json.loads(self.succeed(*self.quantize("--dry-run", "--json")))
        done = json.loads(self.succeed(*self.quantize("--json")))
        self.assertEqual((planned["dry_run"], done["dry_run"]), (True, False))
        self.assertEqual(planned["file_bytes_after"], os.path.getsize(self.path("q")))
        keys = ("name", "bytes_before", "bytes_after", "quantized", "kept")
        self.assertEqual(*[[{k: t.get(k) for k in keys} for t in j["tensors"]] for j in (planned, done)])
        # Where nothing is written, nobody need say where to.
        before = self.names()
        self.assertIn("-o says where", self.succeed("quantize", self.path("in"), "--dry-run"))
        nowhere = json.loads(self.succeed("quantize", self.path("in"), "--dry-run", "--json"))
        self.assertEqual({**nowhere, "output": planned["output"]}, planned)
        self.assertIsNone(nowhere["output"])
        self.assertEqual(self.names(), before)

    def test_options_that_would_do_nothing_are_refused(self):
        for option in (["--scheme", "per-group"], ["--scheme", "per-channel"], ["--axis", "0"], ["--group", "128"], ["--affine"],
                       ["--symmetric"]):
            self.refuse(option[0] + " is not for --format gguf", *self.quantize("--format", "gguf", *option))
        for scheme, option in [("per-group", "--axis"), ("per-tensor", "--axis"), ("per-token", "--axis"), ("per-channel", "--group"),
                               ("per-tensor", "--group")]:
            self.refuse(f"{option} is for --scheme", *self.quantize("--scheme", scheme, option, "1"))
        self.refuse("--group is for --scheme per-group, the scheme is per-channel", *self.quantize("--group", "4"))
        self.assertNotIn("q", self.names())

    def test_a_dtype_is_written_in_either_case(self):
        checkpoint.write(self.path("in"), {"w": Tensor("F32", [4, 32], range(128))})
        for options in (["--format", "gguf", "--dtype", "q8_0"], ["--dtype", "u8"]):
            plan = lambda dtype: self.succeed(*self.quantize("--dry-run", "--json", *options[:-1], dtype))
            self.assertEqual(plan(options[-1].upper()), plan(options[-1]))

    def test_tables_fit_the_terminal(self):
        ends = ("workspace for", self.folder)  # what comes after a table
        for columns, arguments in [(60, ["inspect", self.path("in")]), (80, ["inspect", self.path("in")]),
                                   (80, self.quantize()), (120, self.quantize()), (80, ["ops", "quantize"])]:
            code, text = on_terminal(columns, *arguments)
            self.assertEqual(code, 0)
            lines = [line.rsplit("\x1b[K", 1)[-1] for line in text.replace("\r\n", "\n").split("\n")]
            lines = [line for line in lines if line and not line.startswith(ends)]
            self.assertGreater(len(lines), 5)
            for line in lines:
                self.assertLessEqual(len(line), columns, line)
        self.assertIn("…", on_terminal(60, "inspect", self.path("in"))[1])
        # Names are readable on every usual terminal: other columns give way, and are named.
        name = "model.layers.31.self_attn.q_proj"
        checkpoint.write(self.path("in"), {name: self.tensors["w"], "norm": self.tensors["norm"]})
        for columns, missing in [(80, "no room for: max abs error, shape, dtype"),
                                 (70, "no room for: max abs error, shape, dtype, before")]:
            text = on_terminal(columns, *self.quantize())[1].replace("\r\n", "\n")
            self.assertRegex(text, rf"(?m){re.escape(name)} .*s8 ")
            self.assertIn(missing + "\n", text)
        text = on_terminal(80, "inspect", self.path("q"))[1]
        self.assertIn(name + " ", text)
        self.assertIn("no room for: original", text)
        self.assertNotIn("no room", on_terminal(140, *self.quantize())[1] + self.succeed(*self.quantize()))
        checkpoint.write(self.path("in"), self.tensors)
        self.assertIn("long" * 20, on_terminal(200, "inspect", self.path("in"))[1])

    def test_the_progress_bar_has_one_width_and_says_the_time_left(self):
        checkpoint.write_sparse(self.path("in"), {f"w{i}.{'x' * (i % 40)}": [1024, 1024] for i in range(160)})
        code, text = on_terminal(80, *self.quantize("--threads", "1"))
        self.assertEqual(code, 0)
        bars = re.findall(r"\r\x1b\[K(\[[#.]+\][^\r\n]*)", text)
        self.assertGreater(len(bars), 2)
        self.assertEqual({len(re.match(r"\[[#.]+\]", bar)[0]) for bar in bars}, {22})
        self.assertEqual({bar.index("w") for bar in bars}, {59})
        for bar in bars:
            self.assertLess(len(bar), 80)
            self.assertRegex(bar, r"^\[[#.]{20}\] +\d+ %  +[0-9.]+ \w+/s  ( +\d+:\d\d left| {12})  w")
        self.assertTrue(text.rstrip("\n").count("\r\x1b[K") > len(bars))  # and it is wiped

    def test_an_interrupt_says_how_to_go_on(self):
        checkpoint.write_sparse(self.path("in"), {f"w{i}": [4096, 1024] for i in range(48)})
        for number in (signal.SIGINT, signal.SIGTERM):
            process = subprocess.Popen([PLANCK, *self.quantize()], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                       text=True)
            while self.path("in") not in open(f"/proc/{process.pid}/maps").read():
                self.assertIsNone(process.poll())
            time.sleep(0.05)
            process.send_signal(number)
            _, stderr = process.communicate(timeout=600)
            self.assertEqual(process.returncode, -number)
            self.assertEqual(stderr, f"planck quantize: interrupted; {self.path('q')} is as it was; the same command "
                                     "starts over\n")
            self.assertEqual(self.names(), ["in"])

    def test_messages_name_the_flag(self):
        for arguments, flag in [(self.quantize("--include", "zzz"), "--include zzz matches no name"),
                                (self.quantize("--exclude", "zzz"), "--exclude zzz matches no name"),
                                (self.quantize("--include", "["), "--include ["),
                                (self.quantize("--dtype", "s9"), "--dtype"), (self.quantize("--scheme", "x"), "--scheme"),
                                (self.quantize("--axis", "zero"), "--axis"), (self.quantize("--group", "0"), "--group"),
                                (["run", "exp", "--in", self.path("in"), "--out", self.path("o"), "--set", "a"], "--set"),
                                (["compare", "--keep", self.path("in")], "--keep"),
                                (["demo", "--epochs", "0"], "--epochs"), (["bench", "--filter", "zzz"], "--filter")]:
            self.refuse(flag, *arguments)


if __name__ == "__main__":
    unittest.main()
