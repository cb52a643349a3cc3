"""PyTorch's checkpoints without PyTorch: what torch.save writes, made with pickle and zipfile."""

import io
import pickle
import struct
import sys
import types
import zipfile

STORAGES = {"F64": "DoubleStorage", "F32": "FloatStorage", "F16": "HalfStorage", "BF16": "BFloat16Storage",
            "I64": "LongStorage", "I32": "IntStorage", "I8": "CharStorage", "U8": "ByteStorage", "BOOL": "BoolStorage"}

_torch = sys.modules.setdefault("torch", types.ModuleType("torch"))
_utils = sys.modules.setdefault("torch._utils", types.ModuleType("torch._utils"))
for _name in STORAGES.values():
    setattr(_torch, _name, type(_name, (), {"__module__": "torch"}))


def _rebuild_tensor_v2(*arguments):
    raise AssertionError("never called")


def _rebuild_parameter(*arguments):
    raise AssertionError("never called")


for _function in (_rebuild_tensor_v2, _rebuild_parameter):
    _function.__module__ = "torch._utils"
    setattr(_utils, _function.__name__, _function)


class Storage:
    def __init__(self, key, dtype, data, width):
        self.key, self.dtype, self.data, self.width = key, dtype, data, width


class Tensor:
    """A view of a storage; strides and offset count elements."""

    def __init__(self, storage, shape, strides=None, offset=0):
        if strides is None:
            strides, step = [], 1
            for extent in reversed(shape):
                strides.insert(0, step)
                step *= extent
        self.arguments = (storage, offset, tuple(shape), tuple(strides), False, None)

    def __reduce__(self):
        return _rebuild_tensor_v2, self.arguments


class Parameter:
    def __init__(self, tensor):
        self.tensor = tensor

    def __reduce__(self):
        return _rebuild_parameter, (self.tensor, True, None)


class _Pickler(pickle.Pickler):
    def persistent_id(self, value):
        if isinstance(value, Storage):
            kind = getattr(_torch, STORAGES[value.dtype])
            return "storage", kind, value.key, "cpu", len(value.data) // value.width
        return None


def pickled(state, protocol=2):
    out = io.BytesIO()
    _Pickler(out, protocol).dump(state)
    return out.getvalue()


def save(path, state, storages, data=None, compression=zipfile.ZIP_STORED, byteorder="little"):
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("archive/data.pkl", pickled(state) if data is None else data)
        archive.writestr("archive/byteorder", byteorder)
        for s in storages:
            archive.writestr(f"archive/data/{s.key}", s.data)
        archive.writestr("archive/version", "3\n")


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)
