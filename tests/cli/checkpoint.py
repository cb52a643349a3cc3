"""Safetensors and Planck's quantized checkpoints, read and written with the standard library alone.

Written from the description of the formats and sharing no code with the library: what the tests compare against.
"""

import json
import math
import struct

WIDTHS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1,
          "BOOL": 1, "C64": 8, "F8_E4M3": 1, "F8_E5M2": 1}
CODES = {"F64": "d", "F32": "f", "F16": "e", "I64": "q", "I32": "i", "I16": "h", "I8": "b", "U64": "Q", "U32": "I", "U16": "H",
         "U8": "B", "BOOL": "?", "F8_E4M3": "B", "F8_E5M2": "B"}  # F8: the bits


def f32(value):
    """The nearest f32, as a Python float."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def to_bf16(value):
    """The bits of the nearest bfloat16 of an f32 value."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    if bits & 0x7fffffff > 0x7f800000:
        return bits >> 16 | 0x40
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16 & 0xffff


def pack(dtype, values):
    if dtype == "BF16":
        return struct.pack(f"<{len(values)}H", *[to_bf16(f32(v)) for v in values])
    return struct.pack(f"<{len(values)}{CODES[dtype]}", *values)


def unpack(dtype, data):
    n = len(data) // WIDTHS[dtype]
    if dtype == "BF16":
        return [struct.unpack("<f", struct.pack("<I", h << 16))[0] for h in struct.unpack(f"<{n}H", data)]
    return list(struct.unpack(f"<{n}{CODES[dtype]}", data))


class Tensor:
    def __init__(self, dtype, shape, values=None, data=None):
        self.dtype, self.shape = dtype, list(shape)
        self.data = pack(dtype, values) if data is None else data

    def values(self):
        return unpack(self.dtype, self.data)

    def __eq__(self, other):
        return (self.dtype, self.shape, self.data) == (other.dtype, other.shape, other.data)

    def __repr__(self):
        return f"{self.dtype} {self.shape} {self.data[:16].hex()}…"


def raw_file(header, data=b"", length=None):
    """A file of header bytes; `length` overrides the true one."""
    if isinstance(header, str):
        header = header.encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def write(path, tensors, metadata=None, pad=True):
    """In the order given; without padding the data may lie at any address."""
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, t in tensors.items():
        header[name] = {"dtype": t.dtype, "shape": t.shape, "data_offsets": [len(data), len(data) + len(t.data)]}
        data += t.data
    text = json.dumps(header, separators=(",", ":")).encode()
    if pad:
        text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(raw_file(text, data))


def write_sparse(path, shapes):
    """F32 tensors of zeros that take no room on the disk."""
    header, at = {}, 0
    for name, shape in shapes.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + 4 * math.prod(shape)]}
        at += 4 * math.prod(shape)
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(raw_file(text))
        f.truncate(8 + len(text) + at)


def read(path):
    """(tensors, metadata)"""
    with open(path, "rb") as f:
        content = f.read()
    length = struct.unpack("<Q", content[:8])[0]
    assert (8 + length) % 8 == 0, "data are not aligned"
    header = json.loads(content[8:8 + length])
    metadata = header.pop("__metadata__", {})
    data = content[8 + length:]
    tensors = {}
    for name, e in header.items():
        begin, end = e["data_offsets"]
        assert begin % WIDTHS[e["dtype"]] == 0, f"{name} is not aligned"
        tensors[name] = Tensor(e["dtype"], e["shape"], data=data[begin:end])
    return tensors, metadata


def groups(scheme, shape):
    """For each element, in order, the index of its scale."""
    count, last = math.prod(shape), shape[-1]
    kind = scheme["scheme"]
    if kind == "per_tensor":
        return [0] * count
    if kind == "per_channel":
        inner = math.prod(shape[scheme["axis"] + 1:])
        return [i // inner % shape[scheme["axis"]] for i in range(count)]
    step = last if kind == "per_token" else scheme["group"]
    return [i // step for i in range(count)]


def integers(tensor, dtype):
    """The quantized values, unpacked."""
    if dtype in ("s8", "u8"):
        return tensor.values()
    nibbles = [n for byte in tensor.data for n in (byte & 15, byte >> 4)]
    return [n - 16 if dtype == "s4" and n > 7 else n for n in nibbles]


def restore(tensors, metadata):
    """What the description of the format says the original was."""
    version = metadata["planck.quantized"]
    assert version in ("1", "2")
    scale_suffix, zero_suffix = (".scale", ".zero_point") if version == "1" else ("_scale", "_zero_point")
    out = dict(tensors)
    for key, text in metadata.items():
        if not key.startswith("planck.quantized:"):
            continue
        name, scheme = key.split(":", 1)[1], json.loads(text)
        scale = out.pop(name + scale_suffix)
        count = math.prod(scale.shape)
        if scheme["symmetric"] and version == "2":
            assert name + zero_suffix not in out, "zero points of a symmetric scheme are not stored"
            zero = [scheme["zero_point"]] * count
        else:
            zero = out.pop(name + zero_suffix).values()
        q, shape = integers(out[name], scheme["dtype"]), scheme["original_shape"]
        if len(q) != math.prod(shape):  # four-bit rows end with a whole byte
            width, terms = len(q) // shape[0], math.prod(shape[1:])
            q = [q[r * width + i] for r in range(shape[0]) for i in range(terms)]
        assert min(q) >= scheme["q_min"] and max(q) <= scheme["q_max"]
        assert scale.dtype == scheme["original_dtype"]
        scales, index = scale.values(), groups(scheme, scheme["original_shape"])
        exact = [scales[g] * (v - zero[g]) for v, g in zip(q, index)]
        if scale.dtype != "F64":
            exact = [f32(v) for v in exact]
        out[name] = Tensor(scale.dtype, scheme["original_shape"], exact)
    return out, {k: v for k, v in metadata.items() if not k.startswith("planck.quantized")}
