"""Seeds for the fuzzers of checkpoints: seeds.py FOLDER writes FOLDER/gguf, FOLDER/torch, FOLDER/index and FOLDER/state."""
import hashlib
import json
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import checkpoint
import torch_file

folder = pathlib.Path(sys.argv[1])
for name in ("gguf", "torch", "index", "state"):
    (folder / name).mkdir(parents=True, exist_ok=True)


def text(s):
    return struct.pack("<Q", len(s)) + s


def gguf(fields=(), tensors=(), data=b""):
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields)) + b"".join(fields) + b"".join(tensors)
    return out + b"\0" * (-len(out) % 32) + data


def tensor(name, shape, kind, offset):
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


fields = [text(b"general.architecture") + struct.pack("<I", 8) + text(b"llama"),
          text(b"general.alignment") + struct.pack("<II", 4, 32),
          text(b"tokens") + struct.pack("<IIQ", 9, 8, 2) + text(b"a") + text(b"bc"),
          text(b"nested") + struct.pack("<IIQIQ", 9, 9, 1, 6, 2) + struct.pack("<2f", 1, 2)]
seeds = {"empty": gguf(), "fields": gguf(fields), "plain": gguf(tensors=[tensor(b"w", [2, 3], 0, 0)], data=b"\0" * 32)}
sizes = {2: 18, 3: 20, 6: 22, 7: 24, 8: 34, 20: 18, 39: 17}
for kind in [2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 20, 39]:
    block = 32 if kind in sizes else 256
    seeds[f"type{kind}"] = gguf(fields[:1], [tensor(b"q", [block], kind, 0)], bytes(range(256)))
for name, data in seeds.items():
    (folder / "gguf" / name).write_bytes(data)

storage = torch_file.Storage("0", "F32", torch_file.floats(1, 2, 3, 4, 5, 6), 4)
state = {"w": torch_file.Tensor(storage, [2, 3]), "t": torch_file.Parameter(torch_file.Tensor(storage, [3, 2], [1, 3]))}
for name, value in {"flat": state, "nested": {"model": state, "step": 3, "rate": 0.5, "on": True, "no": None}}.items():
    torch_file.save(folder / "torch" / f"{name}.pt", value, [storage])
    for protocol in (2, 4):
        (folder / "torch" / f"{name}.{protocol}.pkl").write_bytes(torch_file.pickled(value, protocol))
(folder / "index" / "one").write_text(json.dumps({"metadata": {"total_size": 3}, "weight_map": {"a": "m.safetensors"}}))
(folder / "index" / "two").write_text(json.dumps({"weight_map": {"a": "x", "b": "y"}, "other": [1, {"c": None}]}))

scheme = {"scheme": "per_group", "group": 2, "dtype": "s4", "q_min": -8, "q_max": 7, "symmetric": True, "zero_point": 0,
          "original_dtype": "F32", "original_shape": [3, 4]}
others = [{"scheme": "per_channel", "axis": 1, "dtype": "u8", "symmetric": False}, {"scheme": "per_token", "dtype": "u4"}]
for i, change in enumerate([{}, *others]):
    (folder / "state" / f"scheme{i}").write_text(json.dumps({**scheme, **change}))


def digest(tensors, metadata):
    """The checksum of a state: planck/nn/state_file.cpp."""
    elements = hashlib.sha256()
    for name, (dtype, shape, data) in sorted(tensors.items()):
        elements.update(f"{name} {dtype} [{', '.join(map(str, shape))}]\n".encode() + data)
    lines = "".join(f"{len(k)} {k} {len(v)} {v}\n" for k, v in sorted(metadata.items()))
    return hashlib.sha256(lines.encode() + elements.hexdigest().encode()).hexdigest()


data = bytes(range(8))
for name, metadata in {"plain": {}, "said": {"run": "x", "planck.quantized:q": json.dumps(scheme)}}.items():
    whole = {**metadata, "dtype of q": "s4", "planck.state": "1",
             "planck.state.sha256": digest({"q": ("s4", [2, 8], data), "w": ("f32", [2], data)}, metadata)}
    checkpoint.write(folder / "state" / name,
                     {"q": checkpoint.Tensor("U8", [2, 4], data=data), "w": checkpoint.Tensor("F32", [2], data=data)}, whole)
