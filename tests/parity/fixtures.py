#!/usr/bin/env python3
"""Losses, modules and optimizers as PyTorch computes them, for parity.test.cpp.

    tests/parity/fixtures.py           writes tests/parity/fixtures.safetensors and checkpoint.safetensors
    tests/parity/fixtures.py --check   computes them again and compares; skipped (77) without python3-torch

Everything is computed in f64, from inputs that f32 holds exactly. The checkpoint is the state_dict of a model of PyTorch, as
PyTorch names it.
"""
import json
import pathlib
import struct
import sys

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    print("skipped: python3-torch is not installed")
    sys.exit(77)

FOLDER = pathlib.Path(__file__).resolve().parent
NAMES = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64"}


def write(path, tensors, metadata):
    header, data = {"__metadata__": metadata}, b""
    for name in sorted(tensors):
        t = tensors[name].detach().contiguous()
        raw = t.numpy().tobytes()
        header[name] = {"dtype": NAMES[t.dtype], "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read(path):
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    header.pop("__metadata__")
    dtypes = {v: k for k, v in NAMES.items()}
    return {name: torch.frombuffer(bytearray(raw[8 + size + e["data_offsets"][0]:8 + size + e["data_offsets"][1]] or b"\0" * 8),
                                   dtype=dtypes[e["dtype"]])[:max(1, torch.Size(e["shape"]).numel())].reshape(e["shape"])
            for name, e in header.items()}


def random(*shape):
    """Numbers of 12 bits: exact in f32, and their squares too."""
    return torch.randint(-2048, 2049, shape).double() / 1024


def losses(out):
    x, wide = random(6, 5), random(2, 4, 3)
    targets, wide_targets = torch.tensor([0, 4, -100, 2, 2, -100]), torch.tensor([[0, 3, 1], [-100, 2, 2]])
    whole = torch.tensor([0, 4, 1, 2, 2, 3])
    weight, wide_weight = torch.tensor([0.5, 1, 2, 0.25, 3]).double(), torch.tensor([1, 0.5, 2, 0.75]).double()
    out.update({"x": x, "targets": targets, "whole": whole, "weight": weight, "wide": wide,
                "wide_targets": wide_targets, "wide_weight": wide_weight})

    def case(name, logits, t, w, smoothing, reduction, ignore=-100):
        logits = logits.clone().requires_grad_()
        loss = F.cross_entropy(logits, t, weight=w, label_smoothing=smoothing, reduction=reduction, ignore_index=ignore)
        loss.sum().backward()
        out[f"cross_entropy/{name}/loss"], out[f"cross_entropy/{name}/gradient"] = loss, logits.grad

    for t, of in (("ignored", targets), ("whole", whole)):
        for w in (None, weight):
            for smoothing in (0.0, 0.1):
                for reduction in ("none", "mean", "sum"):
                    case(f"{t} {'plain' if w is None else 'weighted'} {smoothing:g} {reduction}", x, of, w, smoothing, reduction)
    case("index 2", x, whole, weight, 0.25, "mean", ignore=2)
    case("nothing left", x, torch.full((6,), -100), None, 0.0, "mean")
    for reduction in ("none", "mean"):
        case(f"wide {reduction}", wide, wide_targets, wide_weight, 0.1, reduction)

    y, target = random(3, 4), random(3, 4)
    chance = (target + 2) / 4
    out.update({"y": y, "target": target, "chance": chance})
    for reduction in ("none", "mean", "sum"):
        for name, f, other in (("mse", F.mse_loss, target), ("l1", F.l1_loss, target),
                               ("bce_with_logits", F.binary_cross_entropy_with_logits, chance)):
            a = y.clone().requires_grad_()
            loss = f(a, other, reduction=reduction)
            loss.sum().backward()
            out[f"{name} {reduction}/loss"], out[f"{name} {reduction}/gradient"] = loss, a.grad


def optimizers(out):
    steps = 8
    w, gradients = random(2, 3), random(steps, 2, 3)
    out.update({"w": w, "gradients": gradients})
    optim = torch.optim
    for name, make in {
        "sgd": lambda p: optim.SGD(p, lr=0.05),
        "sgd momentum": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.1),
        "sgd nesterov": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
        "adam": lambda p: optim.Adam(p, lr=0.1),
        "adam decay": lambda p: optim.Adam(p, lr=0.1, weight_decay=0.05),
        "adamw": lambda p: optim.AdamW(p, lr=0.1, weight_decay=0.05),
        "adagrad": lambda p: optim.Adagrad(p, lr=0.1),
        "adagrad decay": lambda p: optim.Adagrad(p, lr=0.1, lr_decay=0.1, weight_decay=0.05, initial_accumulator_value=0.5),
        "rmsprop": lambda p: optim.RMSprop(p, lr=0.01),
        "rmsprop momentum": lambda p: optim.RMSprop(p, lr=0.01, alpha=0.9, momentum=0.9, weight_decay=0.1),
        "rmsprop centered": lambda p: optim.RMSprop(p, lr=0.01, alpha=0.9, centered=True),
    }.items():
        p = w.clone().requires_grad_()
        optimizer = make([p])
        path = []
        for g in gradients:
            p.grad = g.clone()
            optimizer.step()
            path.append(p.detach().clone())
        out[f"path of {name}"] = torch.stack(path)

    # Two parameters, the second one frozen for three steps; groups of their own.
    a, b = w.clone().requires_grad_(), w.clone().requires_grad_()
    optimizer = optim.AdamW([{"params": [a], "lr": 0.1}, {"params": [b], "lr": 0.02, "weight_decay": 0.0}], weight_decay=0.05)
    path = []
    for i, g in enumerate(gradients):
        a.grad, b.grad = g.clone(), g.clone() if i >= 3 else None
        optimizer.step()
        path.append(torch.stack([a.detach(), b.detach()]))
    out["path of groups"] = torch.stack(path)

    # Rows of a table.
    table, indices = random(7, 3), torch.tensor([[1, 4, 1, 6], [0, 4, 4, 4], [6, 2, 1, 0]])
    douts = random(3, 4, 3)
    out.update({"table": table, "indices": indices, "douts": douts})
    for name, make in {"sgd": lambda p: optim.SGD(p, lr=0.1), "adagrad": lambda p: optim.Adagrad(p, lr=0.1),
                       "lazy adam": lambda p: optim.SparseAdam(p, lr=0.1)}.items():
        module = torch.nn.Embedding(7, 3, sparse=True, _weight=table.clone())
        optimizer = make(list(module.parameters()))
        path = []
        for i, d in zip(indices, douts):
            optimizer.zero_grad()
            (module(i) * d).sum().backward()
            optimizer.step()
            path.append(module.weight.detach().clone())
        out[f"rows of {name}"] = torch.stack(path)


def newer_optimizers(out):
    """Lion, LAMB and Muon are in no release of PyTorch that Debian has: their papers' formulas, in PyTorch."""
    def path(of, step):
        p, state, points = of["w"].clone(), {}, []
        for t, g in enumerate(of["gradients"], 1):
            p = step(p, g, state, t)
            points.append(p)
        return torch.stack(points)

    def lion(rate, b1, b2, decay):
        def step(w, g, s, t):
            m = s.get("m", torch.zeros_like(w))
            update = torch.sign(b1 * m + (1 - b1) * g)
            s["m"] = b2 * m + (1 - b2) * g
            return w - rate * (update + decay * w)
        return step

    def lamb(rate, b1, b2, eps, decay):
        def step(w, g, s, t):
            s["m"] = b1 * s.get("m", torch.zeros_like(w)) + (1 - b1) * g
            s["v"] = b2 * s.get("v", torch.zeros_like(w)) + (1 - b2) * g * g
            r = (s["m"] / (1 - b1 ** t)) / (torch.sqrt(s["v"] / (1 - b2 ** t)) + eps) + decay * w
            return w - rate * (w.norm() / r.norm()) * r
        return step

    def muon(rate, momentum, nesterov, decay, as_adam):
        def step(w, g, s, t):
            s["m"] = torch.lerp(s.get("m", torch.zeros_like(w)), g, 1 - momentum)
            x = torch.lerp(g, s["m"], momentum) if nesterov else s["m"]
            tall = x.shape[0] > x.shape[1]
            x = x.T if tall else x
            x = x / x.norm().clamp(min=1e-7)
            for _ in range(5):
                gram = x @ x.T
                x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
            x = x.T if tall else x
            rows, columns = w.shape
            size = 0.2 * max(rows, columns) ** 0.5 if as_adam else max(1, rows / columns) ** 0.5
            return w * (1 - rate * decay) - rate * size * x
        return step

    tall = {"w": out["w"].T, "gradients": out["gradients"].transpose(1, 2)}
    out["path of lion"] = path(out, lion(0.01, 0.9, 0.99, 0))
    out["path of lion decay"] = path(out, lion(0.01, 0.95, 0.98, 0.1))
    out["path of lamb"] = path(out, lamb(0.05, 0.9, 0.999, 1e-6, 0.01))
    out["path of lamb plain"] = path(out, lamb(0.05, 0.8, 0.99, 1e-6, 0))
    out["path of muon"] = path(out, muon(0.02, 0.95, True, 0.1, False))
    out["path of muon tall"] = path(tall, muon(0.02, 0.9, False, 0, False))
    out["path of muon as adam"] = path(tall, muon(0.02, 0.95, True, 0.1, True))


def schedules(out):
    from torch.optim import lr_scheduler as lr

    def rates(make, losses=None):
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        schedule, found = make(optimizer), []
        for i in range(12):
            if losses is None:
                found.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step() if losses is None else schedule.step(losses[i])
            if losses is not None:
                found.append(optimizer.param_groups[0]["lr"])
        return torch.tensor(found, dtype=torch.float64)

    out["rates of linear"] = rates(lambda o: lr.LinearLR(o, 0.25, 1.0, 8))
    out["rates of exponential"] = rates(lambda o: lr.ExponentialLR(o, 0.9))
    out["rates of polynomial"] = rates(lambda o: lr.PolynomialLR(o, 9, 2.0))
    out["rates of one_cycle"] = rates(lambda o: lr.OneCycleLR(o, 1.0, total_steps=13))
    out["rates of sequential"] = rates(lambda o: lr.SequentialLR(
        o, [lr.LinearLR(o, 0.1, 1.0, 4), lr.ExponentialLR(o, 0.8)], [4]))
    losses = [3, 2, 2, 2.5, 2, 1, 1.5, 1, 1, 1, 1, 0.5]
    out["losses"] = torch.tensor(losses, dtype=torch.float64)
    out["rates of plateau"] = rates(lambda o: lr.ReduceLROnPlateau(o, factor=0.5, patience=1, cooldown=1), losses)


class Net(torch.nn.Module):
    """[N, 2, 4, 4] → [N, 3]: pictures as sequences of 16 pixels, 6 channels wide."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(2, 6, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(6)
        self.drop = torch.nn.Dropout(0.5)
        self.attention = torch.nn.MultiheadAttention(6, 2, batch_first=True)
        self.last = torch.nn.LayerNorm(6)
        self.head = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.GELU(), torch.nn.Linear(5, 3))

    def forward(self, x):
        y = self.norm(self.conv(x)).flatten(2).transpose(1, 2)
        y = y + self.attention(self.drop(y), y, y, need_weights=False)[0]
        return self.head(self.last(y).mean(1))


def modules(out):
    net = Net()
    for p in net.parameters():
        p.data = (p.data * 1024).round() / 1024 + torch.randint(-64, 65, p.shape) / 1024
    x = random(4, 2, 4, 4)
    net.drop.p = 0.0
    for _ in range(2):
        net(random(4, 2, 4, 4).float())
    checkpoint = {k: v.clone() for k, v in net.state_dict().items()}
    net = net.double()
    net.load_state_dict({k: v.double() if v.is_floating_point() else v for k, v in checkpoint.items()})
    out["net/x"] = x
    net.eval()
    out["net/evaluated"] = net(x)
    net.train()
    y = net(x)
    out["net/trained"] = y
    F.cross_entropy(y, torch.tensor([0, 2, 1, 1])).backward()
    for name, p in net.named_parameters():
        out["net/gradient/" + name] = p.grad
    out["net/running_mean"], out["net/running_var"] = net.norm.running_mean, net.norm.running_var
    return checkpoint


class RmsNorm(torch.nn.Module):
    """In no release of PyTorch that Debian has: its formula."""

    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.weight, self.eps = torch.nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + self.eps) * self.weight


def modules_alone(out):
    """One module at a time: what it gives, and for a gradient of that those of its input and its parameters."""
    nn = torch.nn
    indices, offsets, picture = torch.tensor([1, 4, 2, 2, 0]), torch.tensor([0, 2]), random(2, 2, 7, 5)
    bend = torch.cat([random(2, 6), torch.tensor([[0, -30, 30, 1e-3, -1e-3, 8]]).double()])
    for name, module, args in (
        ("up", nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), (random(2, 4, 3, 3),)),
        ("rms_norm", RmsNorm(5), (random(3, 2, 5),)),
        ("embedding", nn.Embedding(6, 3, padding_idx=2), (torch.tensor([[1, 2, 4], [4, 4, 0]]),)),
        ("bag mean", nn.EmbeddingBag(5, 3, mode="mean"), (indices, offsets)),
        ("bag sum", nn.EmbeddingBag(5, 3, mode="sum", padding_idx=2), (indices, offsets)),
        ("bag max", nn.EmbeddingBag(5, 3, mode="max"), (indices, offsets)),
        ("max_pool", nn.MaxPool2d((3, 2), stride=2, padding=1), (picture,)),
        ("max_pool wide", nn.MaxPool2d(2, stride=(2, 3), dilation=2, ceil_mode=True), (picture,)),
        ("avg_pool", nn.AvgPool2d((3, 2), stride=2, padding=1), (picture,)),
        ("avg_pool inside", nn.AvgPool2d(3, stride=2, padding=1, ceil_mode=True, count_include_pad=False), (picture,)),
        ("adaptive_avg_pool", nn.AdaptiveAvgPool2d((3, 2)), (picture,)),
        ("relu", nn.ReLU(), (bend,)), ("leaky_relu", nn.LeakyReLU(0.1), (bend,)), ("gelu", nn.GELU(), (bend,)),
        ("silu", nn.SiLU(), (bend,)), ("tanh", nn.Tanh(), (bend,)), ("sigmoid", nn.Sigmoid(), (bend,)),
        ("softplus", nn.Softplus(), (bend,)),
    ):
        module, args = module.double(), [a.clone().requires_grad_() if a.is_floating_point() else a for a in args]
        for key, p in module.named_parameters():
            p.data = random(*p.shape)
            if getattr(module, "padding_idx", None) is not None:
                p.data[module.padding_idx] = 0  # as PyTorch makes it
            out[f"{name}/{key}"] = p
        for i, a in enumerate(args):
            out[f"{name}/in{i}"] = a
        y = module(*args)
        dy = random(*y.shape)
        y.backward(dy)
        out[f"{name}/out"], out[f"{name}/dout"] = y, dy
        for key, p in list(module.named_parameters()) + [("in0", args[0])]:
            if p.grad is not None:
                out[f"{name}/gradient/{key}"] = p.grad


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    out = {}
    losses(out)
    optimizers(out)
    checkpoint = modules(out)
    newer_optimizers(out)
    schedules(out)
    modules_alone(out)
    out = {k: v.double() if v.is_floating_point() else v for k, v in out.items()}
    files = {FOLDER / "fixtures.safetensors": out, FOLDER / "checkpoint.safetensors": checkpoint}
    if "--check" not in sys.argv:
        for path, tensors in files.items():
            write(path, tensors, {"format": "pt", "made by": f"tests/parity/fixtures.py, torch {torch.__version__}"})
            print(f"{path.name}: {len(tensors)} tensors, {path.stat().st_size} bytes")
        return 0
    faults = []
    for path, tensors in files.items():
        stored = read(path)
        if stored.keys() != tensors.keys():
            faults.append(f"{path.name}: other names")
        for name in stored.keys() & tensors.keys():
            a, b = stored[name], tensors[name].detach()
            if a.shape != b.shape or not torch.allclose(a, b, rtol=1e-5, atol=1e-6 if a.dtype == torch.float32 else 1e-10,
                                                        equal_nan=True):
                faults.append(f"{path.name}: {name} is another here")
    print("\n".join(faults) or f"torch {torch.__version__} gives the same")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
