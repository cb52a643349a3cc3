"""The shape ops of `planck run` × dtypes × odd shapes × odd attributes: each taken with the result of naive loops, or
refused with one line; never a signal."""

import concurrent.futures
import itertools
import json
import os
import random
import subprocess
import unittest

import checkpoint
from checkpoint import WIDTHS, Tensor
from command import PLANCK, CommandTest
from naive_shapes import OPS, Array, Refused, TooLarge

DTYPES = ["F32", "I64", "BOOL", "F16", "U8", "F64", "I8", "BF16", "I32"]
SHAPES = [[], [0], [1], [7], [2, 3], [2, 0, 3], [3, 1], [1, 2, 1, 2], [1] * 8, [2, 1, 2, 1, 1, 1, 2, 1]]

LISTS = ["", "0", "1", "-1", "7", "6", "2,3", "2x3", "3x-1", "-1,-1", "-5", "0x4294967296", "1,1,1,1", "1,0", "0,1", "-1,0",
         "0,0", "2x0x3", "1,2,1,2", "1x1x1x1x1x1x1x1", "1x1x1x1x1x1x1x1x1", "7,6,5,4,3,2,1,0", "4294967296x4294967296x2",
         "1099511627777", "9223372036854775807", "99999999999999999999", "2.5", "x", "2,", "2x3,1", "01", "+1", "nan"]
NUMBERS = ["0", "1", "-1", "2", "-2", "5", "-9", "8", "2147483648", "-2147483649", "9223372036854775807",
           "-9223372036854775808", "99999999999999999999", "", "0.5", "x", "all"]
SETTINGS = {
    "reshape": [{"shape": v} for v in LISTS],
    "permute": [{"axes": v} for v in LISTS],
    "expand": [{"shape": v} for v in LISTS + ["2x7", "5x1x1", "2x2x3", "4x2x3", "2x1x2x3x2"]],
    "slice": [{}, *({k: v} for k in ("axis", "start", "stop", "step") for v in NUMBERS),
              *({"start": a, "stop": b, "step": c} for a, b, c in itertools.product(["-1", "0", "9"], ["", "0", "-1"], ["-1", "2"]))],
    "flip": [{}, *({"axes": v} for v in LISTS + ["all"])],
    "cat": [{}, *({"axis": v} for v in NUMBERS)],
    "stack": [{}, *({"axis": v} for v in NUMBERS)],
    "split": [{"sizes": v, "axis": a} for v in LISTS + ["3,4", "1,1", "1x1x1", "0,2,0"] for a in ("0", "-1")] +
             [{"sizes": "1,1", "axis": v} for v in NUMBERS],
    "pad": [{}, *({k: v} for k in ("before", "after") for v in LISTS), {"before": "1,-1", "after": "-1,2"},
            {"before": "-1,-1", "after": "-9,0"}],
    "repeat": [{"counts": v} for v in LISTS + ["2", "0,2", "2,2", "1,3,1"]],
}
SETTINGS["slice_assign"] = SETTINGS["slice"]


def tensor(dtype, shape, seed):
    """Elements that differ, as far as the dtype allows."""
    count, width = len(list(itertools.product(*(range(e) for e in shape)))), WIDTHS[dtype]
    values = random.Random(seed)
    if dtype == "BOOL":
        return Tensor(dtype, shape, data=bytes(values.randrange(2) for _ in range(count)))
    return Tensor(dtype, shape, data=bytes(values.randrange(1, 120) for _ in range(count * width)))


def array(t):
    width = WIDTHS[t.dtype]
    return Array(t.shape, [t.data[k:k + width] for k in range(0, len(t.data), width)])


def all_cases():
    """Of every op; dtypes and shapes go round, so that settings meet all of them."""
    turn = itertools.count()
    for op, all_settings in SETTINGS.items():
        names = {"cat": ["x0", "x1", "x2"], "stack": ["x0", "x1"], "slice_assign": ["x", "values"]}.get(op, ["x"])
        for settings in all_settings:
            n = next(turn)
            dtype, shape = DTYPES[n % len(DTYPES)], SHAPES[n * 3 % len(SHAPES)]
            tensors = {name: tensor(dtype, shape, n + k) for k, name in enumerate(names)}
            if op == "slice_assign" and n % 4:  # values that fit
                try:
                    piece = OPS["slice"](array(tensors["x"]), **settings)["y"]
                    tensors["values"] = tensor(dtype, piece.shape, n)
                except Refused:
                    pass
            yield op, tensors, settings
        for dtype in DTYPES:  # a matrix of every dtype, as it is meant, and beside every other dtype
            usual = {"reshape": {"shape": "3,2"}, "permute": {"axes": "1,0"}, "expand": {"shape": "2,2,3"},
                     "split": {"axis": "1", "sizes": "1,2"}, "repeat": {"counts": "2,1"}, "pad": {"before": "1,0"}}.get(op, {})
            yield op, {name: tensor(dtype, [2, 3], k) for k, name in enumerate(names)}, usual
            for other in DTYPES if len(names) == 2 and dtype in ("F32", "I32", "BOOL", "U8") else []:
                yield op, {names[0]: tensor(dtype, [2, 3], 1), names[1]: tensor(other, [2, 3], 2)}, usual
        yield op, {}, {}


class Sweep(CommandTest):
    def attempt(self, number, op, tensors, settings):
        """What is wrong with one case, or nothing; and whether it was taken."""
        dtypes = {t.dtype for t in tensors.values()}
        expected = None
        if len(dtypes) == 1:
            dtype = dtypes.pop()
            more = {"value": bytes(WIDTHS[dtype])} if op == "pad" else {}
            try:
                expected = OPS[op](*map(array, tensors.values()), **settings, **more)
            except Refused:
                pass
            except TooLarge:
                return "", False
        source, out = self.path(f"in{number}"), self.path(f"out{number}")
        checkpoint.write(source, tensors)
        sets = ["--set", *(f"{k}={v}" for k, v in settings.items())] if settings else []
        done = subprocess.run([PLANCK, "run", op, "--in", source, "--out", out, *sets], capture_output=True, text=True,
                              timeout=60)
        if done.returncode == 2:
            if done.stderr.count("\n") != 1 or done.stdout or os.path.exists(out):
                return f"refused as {done.stderr!r}", False
            return ("" if expected is None else f"refused: {done.stderr}"), False
        if done.returncode != 0:
            return f"ended with {done.returncode}: {done.stderr}", False
        if expected is None:
            return "taken, and should not be", True
        results = checkpoint.read(out)[0]
        if sorted(results) != sorted(expected):
            return f"gives {sorted(results)}", True
        for name, want in expected.items():
            got = results[name]
            if (got.dtype, got.shape, got.data) != (dtype, want.shape, b"".join(want.items)):
                return f"{name} is {got}, not {dtype} {want.shape} {b''.join(want.items)[:16].hex()}…", True
        return "", True

    def test_every_case_is_taken_or_refused(self):
        cases = list(all_cases())
        if os.environ.get("PLANCK_SANITIZE", "OFF") not in ("", "OFF"):
            cases = cases[::2]  # a start takes long there
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            results = list(pool.map(lambda c: self.attempt(c[0], *c[1]), enumerate(cases)))
        faults = [f"{op} {settings} of {tensors}: {fault}" for (op, tensors, settings), (fault, _) in zip(cases, results) if fault]
        self.assertEqual(faults[:10], [])
        taken = {op: sum(t for (o, _, _), (_, t) in zip(cases, results) if o == op) for op in OPS}
        for op in OPS:
            self.assertGreater(taken[op], 3, taken)

    def test_every_shape_op_is_swept(self):
        without_kernels = {o["op"] for o in json.loads(self.succeed("ops", "--json")) if not o["kernels"]}
        self.assertEqual(without_kernels, set(OPS))


if __name__ == "__main__":
    unittest.main()
