"""The shape ops of `planck run` on lists, element by element: what its results are compared with.

Written from the description of the ops and sharing no code with the library. Each function takes arrays and settings
as the command line has them, and gives arrays, or raises Refused.
"""

import itertools
import math
import re


class Refused(Exception):
    pass


class TooLarge(Exception):
    """A result that a machine may have room for, and nobody would wait for."""


class Array:
    """Elements in row-major order; an element is whatever it is, here its bytes."""

    def __init__(self, shape, items):
        self.shape, self.items = list(shape), list(items)

    def at(self, index):
        place = 0
        for i, extent in zip(index, self.shape):
            place = place * extent + i
        return self.items[place]


def made(shape, element):
    if 0 in shape:  # whatever the other extents
        return Array(shape, [])
    return Array(shape, [element(index) for index in itertools.product(*(range(e) for e in shape))])


def whole(text):
    if not re.fullmatch(r"0|-?[1-9][0-9]*", text) or not -2**63 <= int(text) < 2**63:
        raise Refused(text)
    return int(text)


def numbers(text):
    """A list as 2,3 or 2x3; nothing is an empty one."""
    if text is None:
        raise Refused("not set")
    parts = text.split("," if "," in text else "x") if text else []
    if len(parts) > 8:
        raise Refused("more than 8")
    values = [whole(p) for p in parts]
    if any(abs(v) > 2**40 for v in values):
        raise Refused("beyond 2^40")
    return values


def axis_of(text, rank):
    axis = whole(text)
    if not -rank <= axis < rank:
        raise Refused("no such axis")
    return axis % rank


def fits(shape):
    if any(e < 0 for e in shape) or len(shape) > 8 or math.prod(max(e, 1) for e in shape) >= 2**60:
        raise Refused("shape")
    if math.prod(shape) > 2**40:
        raise Refused("no machine has that much memory")
    if math.prod(shape) > 2**20:
        raise TooLarge
    return shape


def reshape(x, shape=""):
    shape = numbers(shape)
    if shape.count(-1) > 1 or any(e < -1 for e in shape):
        raise Refused("shape")
    if -1 in shape:
        known = math.prod(e for e in shape if e != -1)
        if known == 0 or len(x.items) % known:
            raise Refused("does not fill")
        shape[shape.index(-1)] = len(x.items) // known
    if math.prod(fits(shape)) != len(x.items):
        raise Refused("another count")
    return {"y": Array(shape, x.items)}


def permute(x, axes=""):
    axes = numbers(axes)
    rank = len(x.shape)
    if len(axes) != rank or any(not -rank <= a < rank for a in axes):
        raise Refused("axes")
    axes = [a % rank for a in axes]
    if len(set(axes)) != rank:
        raise Refused("twice")
    return {"y": made([x.shape[a] for a in axes], lambda i: x.at([i[axes.index(d)] for d in range(rank)]))}


def expand(x, shape=""):
    shape = fits(numbers(shape))
    added = len(shape) - len(x.shape)
    if added < 0 or any(e not in (1, w) for e, w in zip(x.shape, shape[added:])):
        raise Refused("cannot become")
    return {"y": made(shape, lambda i: x.at([0 if e == 1 else k for e, k in zip(x.shape, i[added:])]))}


def positions(extent, start, stop, step):
    start, step = whole(start), whole(step)
    if step == 0:
        raise Refused("step")
    return list(range(extent))[start:None if stop == "" else whole(stop):step]


def slice_(x, axis="0", start="0", stop="", step="1"):
    axis = axis_of(axis, len(x.shape))
    chosen = positions(x.shape[axis], start, stop, step)
    shape = x.shape[:axis] + [len(chosen)] + x.shape[axis + 1:]
    return {"y": made(shape, lambda i: x.at([*i[:axis], chosen[i[axis]], *i[axis + 1:]]))}


def slice_assign(x, values, axis="0", start="0", stop="", step="1"):
    axis = axis_of(axis, len(x.shape))
    chosen = positions(x.shape[axis], start, stop, step)
    if values.shape != x.shape[:axis] + [len(chosen)] + x.shape[axis + 1:]:
        raise Refused("shape")
    return {"y": made(x.shape, lambda i: x.at(i) if i[axis] not in chosen else
                      values.at([*i[:axis], chosen.index(i[axis]), *i[axis + 1:]]))}


def flip(x, axes="all"):
    rank = len(x.shape)
    axes = list(range(rank)) if axes == "all" else numbers(axes)
    if any(not -rank <= a < rank for a in axes):
        raise Refused("axes")
    turned = {a % rank for a in axes}
    if len(turned) != len(axes):
        raise Refused("twice")
    return {"y": made(x.shape, lambda i: x.at([e - 1 - k if d in turned else k
                                               for d, (e, k) in enumerate(zip(x.shape, i))]))}


def cat(*pieces, axis="0"):
    axis = axis_of(axis, len(pieces[0].shape))
    rest = [p.shape[:axis] + p.shape[axis + 1:] for p in pieces if len(p.shape) == len(pieces[0].shape)]
    if rest != [rest[0]] * len(pieces):
        raise Refused("shapes")
    whole_axis = [(p, k) for p in pieces for k in range(p.shape[axis])]
    shape = pieces[0].shape[:axis] + [len(whole_axis)] + pieces[0].shape[axis + 1:]
    return {"y": made(shape, lambda i: whole_axis[i[axis]][0].at([*i[:axis], whole_axis[i[axis]][1], *i[axis + 1:]]))}


def stack(*pieces, axis="0"):
    axis = axis_of(axis, len(pieces[0].shape) + 1)
    if any(p.shape != pieces[0].shape for p in pieces):
        raise Refused("shapes")
    shape = fits(pieces[0].shape[:axis] + [len(pieces)] + pieces[0].shape[axis:])
    return {"y": made(shape, lambda i: pieces[i[axis]].at([*i[:axis], *i[axis + 1:]]))}


def split(x, axis="0", sizes=""):
    sizes, axis = numbers(sizes), axis_of(axis, len(x.shape))
    if any(s < 0 for s in sizes) or sum(sizes) != x.shape[axis]:
        raise Refused("sizes")
    found, begin = {}, 0
    for k, size in enumerate(sizes):
        found[f"y{k}"] = slice_(x, str(axis), str(begin), str(begin + size))["y"]
        begin += size
    return found


def pad(x, before="", after="", value=b""):
    before, after = (numbers(w) or [0] * len(x.shape) for w in (before, after))
    if len(before) != len(x.shape) or len(after) != len(x.shape):
        raise Refused("widths")
    shape = fits([e + b + a for e, b, a in zip(x.shape, before, after)])
    def element(i):
        of = [k - b for k, b in zip(i, before)]
        return x.at(of) if all(0 <= k < e for k, e in zip(of, x.shape)) else value
    return {"y": made(shape, element)}


def repeat(x, counts=""):
    counts = numbers(counts)
    if len(counts) != len(x.shape) or any(c < 0 for c in counts):
        raise Refused("counts")
    return {"y": made(fits([e * c for e, c in zip(x.shape, counts)]), lambda i: x.at([k % e for k, e in zip(i, x.shape)]))}


OPS = {"reshape": reshape, "permute": permute, "expand": expand, "slice": slice_, "slice_assign": slice_assign,
       "flip": flip, "cat": cat, "stack": stack, "split": split, "pad": pad, "repeat": repeat}
