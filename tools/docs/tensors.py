#!/usr/bin/env python3
"""Writes docs/tensors.md, every function on tensors and every module, from the headers.

A row is a declaration and its comment; a function without a comment is an error.

    tools/docs/tensors.py           prints the page
    tools/docs/tensors.py --check   compares it with docs/tensors.md
"""
import difflib
import re
import sys

sys.dont_write_bytecode = True
from declarations import balanced, commas, flat, members, read_file, template_of
from signatures import ROOT, function_of, shown_default, shown_parameter, shown_type

PAGE = ROOT / "docs/tensors.md"

INTRO = """# Functions on tensors, and modules

Written by `tools/docs/tensors.py` from the headers; CI fails where it is stale. Include `planck/planck.h` for the
functions, `planck/training.h` for everything. Functions are in namespace `planck`, modules in `planck::nn`, optimizers
in `planck::optim`.

The backend is left out of the types: `Tensor` is `Tensor<B>`, floats; `Tensor<IntKind>` and `Tensor<BoolKind>` are
integers and truth values, `QuantizedTensor` is `Tensor<QuantizedKind>`; `Tensor<K>` has the kind of the input it stands
for. Functions that no tensor goes into are told the backend: `zeros<Cpu>({2, 3})`. Every function works on
`Autodiff<B>` too, which adds the gradients ([autodiff.md](autodiff.md)). Tensors are values: no function changes its
input. What a caller does wrong is thrown as `planck::Exception`.
"""

# Titles in the order of the page.
MEMBERS = [("tensor.h", "Members of a tensor"), ("quantized_tensor.h", "Members of a quantized tensor")]
FAMILIES = [
    ("elementwise", "Elementwise, creation, random numbers"),
    ("shape", "Shapes"),
    ("reduce", "Reductions"),
    ("softmax", "Softmax and cross entropy"),
    ("norm", "Norms"),
    ("matmul", "Matrix products"),
    ("attention", "Scaled dot-product attention"),
    ("conv", "Convolutions"),
    ("pool", "Pooling"),
    ("index", "Indexing"),
    ("sort", "Sorting"),
    ("embedding", "Embeddings"),
    ("grid_sample", "Grid sampling"),
    ("quantize", "Quantization"),
]
# Functions that lie elsewhere, by family.
BESIDE = {"embedding": ["planck/autodiff/row_leaf.h"]}
MODULES = ["linear", "conv", "conv1d", "conv3d", "norm", "layers", "attention", "spatial_transformer", "module",
           "quantize/quantizable", "quantize/layers", "quantize/stored", "quantize/fake_quant"]
NN_FUNCTIONS = [
    ("losses", "Losses"),
    ("attention", "Attention"),
    ("rope", "Rotary positions"),
    ("quantize/quantizable", "Quantizing a model"),
    ("quantize/observer", "Observers"),
    ("quantize/quantized_file", "Converted models as files"),
    ("quantize/quantized_state", "Quantized state"),
    ("state_dict", "State dicts"),
    ("state", "State"),
    ("state_file", "States in files"),
    ("load", "Loading"),
    ("parameter", "With and without gradients"),
    ("module", "Parts of a module"),
    ("initialize", "First values"),
]
OPTIMIZERS = {"adam": "Adam", "sgd": "Sgd", "adagrad": "Adagrad", "rmsprop": "RmsProp", "lion": "Lion", "lamb": "Lamb",
              "muon": "Muon"}
BESIDE_OPTIMIZERS = {"scale/loss_scale": "LossScale", "ema": "Ema"}
OPTIM = [*OPTIMIZERS, "gradients", "schedule", "optimizer"]
# Functions that other functions are made of.
INTERNAL = {"scalar", "refuse_bad", "target_mask", "sum_to", "per_channel", "pullback", "part_type",
            "parts_of", "collect_parts", "check_entry", "kept_names", "chosen", "refuse_shape", "step_parameters",
            "check_same_place", "fan_in_bound", "place_of", "step_factor"}


def cell(text):
    """Formulas hold characters that Markdown would read."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;")


def code(text):
    return "`" + text.replace("|", "\\|") + "`"


def table(rows, *head):
    if not rows:
        return ""
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] +
                     ["| " + " | ".join(r) + " |" for r in rows]) + "\n"


class Page:
    def __init__(self):
        self.faults, self.types, self.text, self.index = [], [], INTRO, []

    def functions(self, path):
        opening, declarations = read_file(path)
        rows = []
        defined = {d.head for d in declarations if d.body}
        known = [(d, f) for d in declarations if (f := function_of(d)) and f.name not in INTERNAL]
        of_modules = {f.name for d, f in known if any("Module&" in t for t in f.types)}
        for d, f in known:
            if not d.body and d.head in defined or f.name in of_modules and any("PartList&" in t for t in f.types):
                continue
            if not f.meaning:
                self.faults.append(f"{path.relative_to(ROOT)}:{d.line}: {f.name} has no comment")
            self.types += f.types
            rows.append([code(f.signature), cell(f.meaning)])
        return opening, rows

    def modules(self, path):
        rows = []
        for d in read_file(path)[1]:
            template, rest = template_of(d.head)
            m = re.match(r"(?:struct|class) (\w+)(?: final)?(?: : .*)?$", rest)
            if not m or "operator()" not in d.body or m[1] == "PartList":
                continue
            if not d.comment:
                self.faults.append(f"{path.relative_to(ROOT)}:{d.line}: {m[1]} has no comment")
            rows.append([code(self.constructor(m[1], template, d.body)),
                         " or ".join(code(f) for f in self.forwards(d.body)), cell(d.comment)])
        return rows

    def constructor(self, name, template, body):
        told = [p.partition("=")[0].split()[-1].lstrip(".") for p in template]
        shown = name + (f"<{', '.join(told)}>" if told else "")
        public = re.split(r"\n private:", body)[0]
        m = re.search(rf"\n\s*(?:explicit )?{name}\(", public)
        if m:
            start = m.end() - 1
            inside = public[start + 1:start + balanced(public[start:], "(", ")") - 1]
            parameters = commas(flat(inside))
            self.types += [p.partition("=")[0] for p in parameters]
            return f"{shown}({', '.join(shown_parameter(p) for p in parameters)})"
        fields = [m[1] for m in re.finditer(r"^\s*[\w:<>, ]+? (\w+)(?: = [^;]+)?;", public, re.M)
                  if "return" not in m[0]]
        self.types += re.findall(r"\b\w+Options\b", public)
        return f"{shown}{{{', '.join(fields)}}}"

    def forwards(self, body):
        found = []
        for m in re.finditer(r"([\w:<>, ]+?)\s+operator\(\)\(", body):
            start = m.end() - 1
            inside = flat(body[start + 1:start + balanced(body[start:], "(", ")") - 1])
            shown = ", ".join(shown_parameter(p) for p in commas(inside))
            result = shown_type(re.sub(r".*template <[^>]*>", "", m[1].split("\n")[-1]))
            found.append(f"({shown}) → {'y' if result == 'auto' else result}")
        return found

    def options(self):
        """Structs of options that a signature above names, with their fields."""
        wanted = {w for t in self.types for w in re.findall(r"\b(\w+Options|QuantScheme|GridSample)\b", t)}
        for folder in ("nn/quantize", "nn", "optim"):  # options inside of options
            for path in sorted((ROOT / "planck" / folder).glob("*.h")):
                for m in re.finditer(r"struct (\w+Options) \{(.*?)\n\};", path.read_text(), re.S):
                    if m[1] in wanted:
                        wanted |= set(re.findall(r"\b(\w+Options|QuantScheme)\b", m[2]))
        rows = {}
        for path in sorted((ROOT / "planck").rglob("*.h")):
            for m in re.finditer(r"struct (\w+) \{\n(.*?)\n\};", path.read_text(), re.S):
                if m[1] in wanted and m[1] not in rows:
                    rows[m[1]] = [code(m[1]), ", ".join(fields_of(m[2]))]
        return [rows[name] for name in sorted(rows)]

    def section(self, title, text, level="##"):
        self.text += f"\n{level} {title}\n\n{text}"
        if level == "##":
            anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
            self.index.append(f"[{title.lower()}](#{anchor})")


def fields_of(body):
    """The fields of a struct, each with its default and the comment behind it."""
    fields = []
    for line in body.split("\n"):
        words = re.sub(r"//.*", "", line).strip()
        if not words or "operator" in words or words.startswith(("Result", "static")) or "(" in words.split("=")[0]:
            if fields and "static" not in words:
                break
            continue
        note = re.search(r"//\s*(.*)", line)
        for name in commas(re.match(r"[\w:]+(?:<[^=]*>)?\s+(.*);", words)[1]):
            n, _, default = name.partition("=")
            braces = re.match(r"(\w+)(\{.*\})", n.strip())
            if braces:
                n, default = braces[1], braces[2]
            shown = n.strip() + (f" = {shown_default(default)}" if default.strip() not in ("", "{}") else "")
            fields.append(code(shown))
        if note:
            fields[-1] += f" ({cell(note[1])})"
    return fields


def page():
    p = Page()
    for header, title in MEMBERS:
        rows = []
        for d in members(ROOT / "planck/backend" / header):
            f = function_of(d)
            if f:
                if not f.meaning:
                    p.faults.append(f"planck/backend/{header}: {f.name} has no comment")
                if not any(r[0] == code(f.signature) for r in rows):
                    rows.append([code(f.signature), cell(f.meaning)])
        p.section(title, table(rows, "member", "meaning"))
    for family, title in FAMILIES:
        text = ""
        for path in [*headers_of(family), *(ROOT / name for name in BESIDE.get(family, []))]:
            opening, rows = p.functions(path)
            text += f"{opening}\n\n" + table(rows, "function", "meaning") + "\n"
        p.section(title, text[:-1])
    rows = [r for name in MODULES for r in p.modules(ROOT / f"planck/nn/{name}.h")]
    p.section("Modules", "A module is constructed once and called: `auto y = layer(x)`. [training.md](training.md) says "
              "how models are made of them.\n\n" + table(rows, "module", "forward", "meaning"))
    for name, title in NN_FUNCTIONS:
        opening, rows = p.functions(ROOT / f"planck/nn/{name}.h")
        p.section(title, table(rows, "function", "meaning"), "###")
    text = ""
    for name, title in OPTIMIZERS.items():
        opening, declarations = read_file(ROOT / f"planck/optim/{name}.h")
        kind = next(d for d in declarations if re.search(rf"class {title} ", d.head))
        text += f"`{p.constructor(title, ['class A'], kind.body)}`, with `step(module, gradients)`, " \
                f"`state()` and `load_state(state)`. {opening}\n\n"
    for name, title in BESIDE_OPTIMIZERS.items():
        text += f"`{title}`: {read_file(ROOT / f'planck/optim/{name}.h')[0]}\n\n"
    rows = [r for name in OPTIM for r in p.functions(ROOT / f"planck/optim/{name}.h")[1]]
    p.section("Optimizers", text + table(rows, "function", "meaning"))
    p.section("Options", "Structs that are written in place: `{.stride = {2, 2}}`.\n\n" +
              table(p.options(), "options", "fields and what they are unless set"))
    left_out(p)
    p.text = p.text.replace(INTRO, INTRO + "\n" + " · ".join(p.index) + "\n")
    return p


def headers_of(family):
    """The family's functions on tensors: the header of its own name first."""
    folder = ROOT / f"planck/ops/{family}"
    return sorted(folder.glob("*.functions.h"), key=lambda path: (path.name != f"{family}.functions.h", path.name))


def left_out(p):
    """Headers that the lists at the top do not know."""
    headers = {path.relative_to(ROOT).as_posix(): path
               for folder in ("ops", "nn", "optim") for path in (ROOT / "planck" / folder).rglob("*.h")}
    known = {path.relative_to(ROOT).as_posix() for f, _ in FAMILIES for path in headers_of(f)}
    known |= {f"planck/nn/{name}.h" for name, _ in NN_FUNCTIONS} | {f"planck/optim/{name}.h" for name in OPTIM}
    modules = {f"planck/nn/{name}.h" for name in MODULES}
    for name, path in sorted(headers.items()):
        if name.startswith("planck/ops/") and not name.endswith(".functions.h") or path.name == "compiled.h" or \
                name.startswith("planck/optim/step/") or name == "planck/nn/onnx/fields.h":  # what onnx.h is made of
            continue
        if name not in known and p.functions(path)[1] or \
                name.startswith("planck/nn/") and name not in modules and p.modules(path):
            p.faults.append(f"{name} has functions or modules; tools/docs/tensors.py does not list it")


def main():
    p = page()
    if p.faults:
        sys.exit("\n".join(p.faults))
    if "--check" not in sys.argv:
        sys.stdout.write(p.text)
        return
    kept = PAGE.read_text() if PAGE.exists() else ""
    if kept != p.text:
        sys.stdout.writelines(difflib.unified_diff(kept.splitlines(True), p.text.splitlines(True),
                                                   "docs/tensors.md", "tools/docs/tensors.py"))
        sys.exit("docs/tensors.md is stale: tools/docs/tensors.py > docs/tensors.md")


if __name__ == "__main__":
    main()
