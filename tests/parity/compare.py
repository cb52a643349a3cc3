#!/usr/bin/env python3
"""One training step of the demo's model and of the examples, compared with PyTorch tensor by tensor.

    build/release/tests/parity_dump /tmp/parity && tests/parity/compare.py /tmp/parity

Needs python3-torch. Each model is written again below in PyTorch, gets the weights and inputs that Planck used, and runs in
f64. A tensor's error is the largest difference divided by the largest magnitude in the tensor, or by FLOOR times the largest
in all gradients where that is more: some gradients are 0 but for rounding (a bias before a batch norm, a key's bias). The
bounds are those of f32 arithmetic. Weights after one step of AdamW are compared where the gradient is not tiny: the first
step is rate * sign(gradient), which amplifies differences of gradients near 0.
"""
import json
import pathlib
import struct
import sys

import torch
import torch.nn.functional as F

LOSS, GRADIENT, STEP, FLOOR = 1e-6, 2e-5, 2e-5, 1e-2
DTYPES = {"F32": torch.float32, "F64": torch.float64, "I64": torch.int64, "I32": torch.int32}


def read(path):
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    header.pop("__metadata__", None)
    out = {}
    for name, e in header.items():
        begin, end = e["data_offsets"]
        flat = torch.frombuffer(bytearray(raw[8 + size + begin:8 + size + end]), dtype=DTYPES[e["dtype"]])
        out[name] = flat.reshape(e["shape"])
    return out


def linear(w, name, x):
    return F.linear(x, w[name + ".weight"], w.get(name + ".bias"))


def conv(w, name, x):
    return F.conv2d(x, w[name + ".weight"], w[name + ".bias"], padding=1)


def digits(w, i):
    x = i["x"]
    h = F.max_pool2d(F.relu(conv(w, "upright.localizer.conv", F.avg_pool2d(x, 2))), 2)
    h = F.relu(linear(w, "upright.localizer.hidden", h.flatten(1)))
    theta = linear(w, "upright.localizer.theta", h) + torch.tensor([1., 0, 0, 0, 1, 0]).double()
    grid = F.affine_grid(theta.reshape(-1, 2, 3), x.shape, align_corners=False)
    y = F.grid_sample(x, grid, align_corners=False)
    y = F.max_pool2d(F.relu(conv(w, "conv1", y)), 2)
    y = F.max_pool2d(F.relu(conv(w, "conv2", y)), 2)
    y = y.flatten(2) + w["places.weight"].T
    return F.cross_entropy(linear(w, "output", F.relu(linear(w, "hidden", y.flatten(1)))), i["labels"])


def batch_norm(w, x):
    return F.batch_norm(x, None, None, w["norm.weight"], w["norm.bias"], training=True)


def qat_float(w, i):
    y = F.max_pool2d(F.relu(batch_norm(w, conv(w, "conv", i["x"]))), 2)
    return F.cross_entropy(linear(w, "output", F.relu(linear(w, "hidden", y.flatten(1)))), i["labels"])


class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g


def lsq(x, step, highest=7):
    """Learned step size (Esser et al.): integers q and a step s, x is about q s; the step's gradient is scaled by
    1 / sqrt(members * highest), and passes to x where the rounded value is in range."""
    factor = (x.numel() / step.numel() * highest) ** -0.5
    s = step * factor + (step * (1 - factor)).detach()
    v = x / (s.reshape([-1] + [1] * (x.dim() - 1)) if step.numel() > 1 else s)
    return torch.clamp(Round.apply(v), -highest, highest), s


def qat_rounded(w, i):
    # Products of integers, then the scales: equal sums stay equal, and max pooling finds the same one.
    def layer(f, name, x, channels, **options):
        q, s = lsq(x, w[name + ".input_quant.step"])
        qw, sw = lsq(w[name + ".weight"], w[name + ".weight_quant.step"])
        return f(q, qw, **options) * (s * sw).reshape(channels) + w[name + ".bias"].reshape(channels)
    y = F.max_pool2d(F.relu(batch_norm(w, layer(F.conv2d, "conv", i["x"], (-1, 1, 1), padding=1))), 2)
    y = F.relu(layer(F.linear, "hidden", y.flatten(1), (-1,)))
    return F.cross_entropy(layer(F.linear, "output", y, (-1,)), i["labels"])


def char_lm(w, i):
    text = i["text"]
    n, length = text.shape
    hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
    x = w["bytes.weight"][text] + w["places.weight"]

    def norm(name, x):
        return F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"])

    for b in range(2):
        at = f"blocks.{b}."
        y = norm(at + "before_attention", x)
        q, k, v = (linear(w, at + "attention." + p, y).reshape(n, length, 4, -1).transpose(1, 2)
                   for p in ("query", "key", "value"))
        scores = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).masked_fill(hidden, float("-inf"))
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(n, length, -1)
        x = x + linear(w, at + "attention.output", y)
        y = F.gelu(linear(w, at + "widen", norm(at + "before_mlp", x)))
        x = x + linear(w, at + "narrow", y)
    return F.cross_entropy(linear(w, "output", norm("last", x)).reshape(-1, 256), i["next"])


def part(all_, prefix):
    return {k[len(prefix):]: v for k, v in all_.items() if k.startswith(prefix)}


def largest(t):
    return t.abs().max().item() if t.numel() else 0.0


def difference(ours, theirs, floor=1e-30):
    return largest(ours.double() - theirs.double()) / max(largest(theirs), floor)


def compare(name, model, folder):
    dumped = read(folder / f"{name}.safetensors")
    gradients = part(dumped, "gradients/")
    weights = {k: v.double().requires_grad_(k in gradients) if v.is_floating_point() else v
               for k, v in part(dumped, "weights/").items()}
    inputs = {k: v.double() if v.is_floating_point() else v for k, v in part(dumped, "inputs/").items()}
    loss = model(weights, inputs)
    loss.backward()
    worst, faults = {}, []

    def check(kind, tensor, found, bound):
        worst[kind] = max(worst.get(kind, 0), found)
        if not found <= bound:
            faults.append(f"{name}: {kind} of {tensor} differs by {found:.2e}, the bound is {bound:.0e}")

    check("loss", "the batch", difference(dumped["loss"], loss.detach()), LOSS)
    trained = [k for k, v in weights.items() if v.requires_grad]
    floor = FLOOR * max(largest(weights[k].grad) for k in trained)
    for k in trained:
        check("gradient", k, difference(gradients[k], weights[k].grad, floor), GRADIENT)
    optimizer = torch.optim.AdamW([weights[k] for k in trained], lr=1e-2, weight_decay=0.1)
    large = {k: weights[k].grad.abs() > max(1e-3 * largest(weights[k].grad), 1e-3 * floor) for k in trained}
    optimizer.step()
    for k in trained:
        check("step", k, difference(dumped["after/" + k][large[k]], weights[k].detach()[large[k]]), STEP)
    print(f"{name:12} {len(trained):3} tensors   loss {worst['loss']:.1e}   gradients {worst['gradient']:.1e}   "
          f"weights after a step {worst['step']:.1e}")
    return faults


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "parity")
    faults = []
    for model in (digits, qat_float, qat_rounded, char_lm):
        faults += compare(model.__name__, model, folder)
    print("\n".join(faults) or "every tensor is within its bound")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
