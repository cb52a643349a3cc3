#!/usr/bin/env python3
"""Writes docs/tensors.md, every function on tensors and every module, from the headers.

A row is a declaration and its comment; a function without a comment is an error.

    tools/docs/tensors.py           prints the page
    tools/docs/tensors.py --check   compares it with docs/tensors.md
"""
import dataclasses
import difflib
import pathlib
import re
import sys

sys.dont_write_bytecode = True
from declarations import balanced, commas, expanded, flat, members, read_file, table_rows, template_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/tensors.md"

INTRO = """# Functions on tensors, and modules

Written by `tools/docs/tensors.py` from the headers; CI fails where it is stale. Include `planck/planck.h` for the
functions, `planck/training.h` for everything. Functions are in namespace `planck`, modules in `planck::nn`, optimizers
in `planck::optim`.

The backend is left out of the types: `Tensor` is `Tensor<B>`, floats; `Tensor<IntKind>` and `Tensor<BoolKind>` are
integers and truth values; `Tensor<K>` has the kind of the input it stands for. Functions that no tensor goes into are
told the backend: `zeros<Cpu>({2, 3})`. Every function works on `Autodiff<B>` too, which adds the gradients
([autodiff.md](autodiff.md)). Tensors are values: no function changes its input. What a caller does wrong is thrown as
`planck::Exception`.
"""

# Titles in the order of the page.
FAMILIES = [
    ("elementwise", "Elementwise, creation, random numbers"),
    ("shape", "Shapes"),
    ("reduce", "Reductions"),
    ("softmax", "Softmax and cross entropy"),
    ("norm", "Norms"),
    ("matmul", "Matrix products"),
    ("conv", "Convolutions"),
    ("pool", "Pooling"),
    ("index", "Indexing"),
    ("sort", "Sorting"),
    ("embedding", "Embeddings"),
    ("grid_sample", "Grid sampling"),
    ("quantize", "Quantization"),
]
MODULES = ["linear", "conv", "norm", "layers", "attention", "spatial_transformer", "module",
           "quantize/quantizable", "quantize/layers", "quantize/fake_quant"]
HELPERS = [
    ("losses", "Losses"),
    ("attention", "Attention"),
    ("quantize/quantizable", "Quantizing a model"),
    ("quantize/observer", "Observers"),
    ("state_dict", "State dicts"),
    ("state", "State"),
    ("module", "Parts of a module"),
    ("initialize", "First values"),
]
OPTIM = ["adam", "sgd", "gradients", "schedule", "optimizer"]
# Functions that other functions are made of.
INTERNAL = {"scalar", "refuse_bad", "target_mask", "sum_to", "per_channel", "adam_scalars", "pullback", "part_type",
            "parts_of", "collect_parts"}


def shown_type(t):
    t = re.sub(r"\[\[nodiscard\]\]|\bconst\b|\binline\b|\bstatic\b|\bconstexpr\b|\btypename\b|&", "", t)
    t = re.sub(r"std::(?=\w)", "", t).strip()
    t = re.sub(r"(?:nn::)?Inner<\w+>", "B", t)
    t = re.sub(r"\b(Tensor|QuantizedTensor|ModelGradients|Sorted|RunningExtreme|Parameter|Slots)<[AB](?:, (\w+))?>",
               lambda m: f"{m[1]}<{m[2]}>" if m[2] else m[1], t)
    return re.sub(r"\s+", " ", t).replace("nn::", "")


def shown_default(value):
    value = value.strip()
    if "default_device" in value:
        return "the default"
    if "dtype_of" in value:
        return "f32"
    if value.startswith("kNo") or value == "std::nullopt":
        return "none"
    if value.startswith("k"):
        return constant(value)
    value = re.sub(r"std::same_as<K, FloatKind> \? Dtype::f32 : Dtype::i64", "i64", value)
    return re.sub(r"\b(?:Dtype|BadIndices|BagMode|Granularity|Observe|QuantMath|SampleMode|SamplePadding)::", "", value)


def constant(name):
    for path in sorted((ROOT / "planck/ops").rglob("*.h")):
        if m := re.search(rf"\b{name} = ([^;]+);", path.read_text()):
            return m[1]
    return name


def shown_parameter(parameter):
    declared, _, default = parameter.partition("=")
    words = declared.replace("&", " ").replace("...", " ").split()
    name = words[-1]
    default = default.strip()
    if re.fullmatch(r"[A-Z]\w*|bool|int|double", name):  # without a name
        name = name.lower()
    if len(name) == 1 and (kind := re.fullmatch(r"(?:const )?([A-Z]\w+)&? \w", declared.strip())):
        name = re.findall(r"[A-Z][a-z]+", kind[1])[-1].lower()  # LinearOptions o: options
    if "Axes&" in declared and default == "{}":
        default = "all"
    if "initializer_list" in declared and name == "values":
        return "{values…}"
    return f"{name} = {shown_default(default)}" if default else name


class Ops:
    """What ops give, from the *.ops.h headers: "Eq" → "BoolKind"."""

    def __init__(self):
        self.gives, alias = {}, {}
        for path in sorted((ROOT / "planck/ops").rglob("*.ops.h")):
            text = path.read_text()
            for m in re.finditer(r"struct (\w+)[^;{]*\{(.*?)\n\};", text, re.S):
                g = re.search(r"using Gives = ([^;]+);", m[2])
                if g:
                    self.gives[m[1]] = g[1]
            for m in re.finditer(r"#define (\w+)\(([^)]*)\) (using .*)", text):  # made of the lines of a table
                for table in path.parent.glob("*.table.h"):
                    text += "\n".join(expanded((m[2].split(", "), m[3]), row.arguments)
                                      for row in table_rows(table) if row.macro == m[1])
            alias |= {m[1]: m[2] for m in re.finditer(r"using (\w+) = (\w+)<", text)}
        for name, target in alias.items():
            if target in self.gives:
                self.gives[name] = self.gives[target]

    def result(self, body):
        m = re.search(r"(?:call|reduce)\((\w+)(?:<(\w+)>)?\{", body)
        return self.kind_of(m)

    def kind_of(self, m):
        """A match of an op, and of the kind it is told."""
        kind = self.gives.get(m[1]) if m else None
        if kind == "K" and m[2]:
            kind = m[2]
        return "Tensor" if kind == "FloatKind" else f"Tensor<{kind or 'K'}>"


OPS = Ops()


@dataclasses.dataclass
class Function:
    name: str
    signature: str
    meaning: str
    types: list  # of parameters


def function_of(d):
    """None where the declaration is not a function."""
    template, rest = template_of(d.head)
    if re.match(r"(struct|class|enum|using|concept|inline constexpr|friend)\b", rest):
        return None
    rest = re.sub(r"^requires \w+<\w+> ", "", rest)
    m = re.match(r"(?P<type>.*?)\s*\b(?P<name>operator\s*[^\s(]+|\w+)\((?P<parameters>.*)\)[^)]*$", rest)
    if not m:
        return None
    name, parameters = m["name"], commas(m["parameters"])
    declared = [p.partition("=")[0] for p in parameters]
    shown = [shown_parameter(p) for p in parameters]
    if name.startswith("operator"):
        sign = name[len("operator"):].strip()
        names = [s.split(" = ")[0] for s in shown]
        if sign == "-" and len(names) == 1:
            call = "-" + names[0]
        elif len(names) == 2:
            call = f"{names[0]} {sign} {names[1]}"
        else:
            return None
    else:
        told = []
        for p in template:
            left, _, default = p.partition("=")
            which = left.split()[-1].lstrip(".")
            plain = [re.sub(rf"typename {which}::\w+|Inner<{which}>", "", t) for t in declared]
            if not any(re.search(rf"\b{which}\b", t) for t in plain):
                told.append(which + (f" = {shown_default(default)}" if default else ""))
        call = name + (f"<{', '.join(told)}>" if told else "") + f"({', '.join(shown)})"
    result = m["type"]
    if result.endswith("::"):  # a member
        return None
    if result == "auto":
        result = OPS.result(d.body)
    elif called := re.match(r"CalledOn<(\w+)(?:<(\w+)>)?, \w+>$", result):
        result = OPS.kind_of(called)
    result = shown_type(result)
    arrow = f" → {result}" if result and result != "void" else ""
    return Function(name, call + arrow, d.comment, declared)


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
        for name in commas(re.match(r"[\w:]+(?:<[^>]*>)?\s+(.*);", words)[1]):
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
    tensor_rows = []
    for d in members(ROOT / "planck/backend/tensor.h"):
        f = function_of(d)
        if f:
            if not f.meaning:
                p.faults.append(f"planck/backend/tensor.h: {f.name} has no comment")
            if not any(r[0] == code(f.signature) for r in tensor_rows):
                tensor_rows.append([code(f.signature), cell(f.meaning)])
    p.section("Members of a tensor", table(tensor_rows, "member", "meaning"))
    for family, title in FAMILIES:
        path = ROOT / f"planck/ops/{family}/{family}.functions.h"
        opening, rows = p.functions(path)
        p.section(title, f"{opening}\n\n" + table(rows, "function", "meaning"))
    rows = [r for name in MODULES for r in p.modules(ROOT / f"planck/nn/{name}.h")]
    p.section("Modules", "A module is constructed once and called: `auto y = layer(x)`. [training.md](training.md) says "
              "how models are made of them.\n\n" + table(rows, "module", "forward", "meaning"))
    for name, title in HELPERS:
        opening, rows = p.functions(ROOT / f"planck/nn/{name}.h")
        p.section(title, table(rows, "function", "meaning"), "###")
    text = ""
    for name in OPTIM[:2]:
        opening, declarations = read_file(ROOT / f"planck/optim/{name}.h")
        kind = next(d for d in declarations if re.search(r"class (Adam|Sgd)$", d.head))
        text += f"`{p.constructor(name.capitalize(), ['class A'], kind.body)}`, with `step(module, gradients)`, " \
                f"`state()` and `load_state(state)`. {opening}\n\n"
    rows = [r for name in OPTIM for r in p.functions(ROOT / f"planck/optim/{name}.h")[1]]
    p.section("Optimizers", text + table(rows, "function", "meaning"))
    p.section("Options", "Structs that are written in place: `{.stride = {2, 2}}`.\n\n" +
              table(p.options(), "options", "fields and what they are unless set"))
    left_out(p)
    p.text = p.text.replace(INTRO, INTRO + "\n" + " · ".join(p.index) + "\n")
    return p


def left_out(p):
    """Headers that the lists at the top do not know."""
    headers = {path.relative_to(ROOT).as_posix(): path
               for folder in ("ops", "nn", "optim") for path in (ROOT / "planck" / folder).rglob("*.h")}
    known = {f"planck/ops/{f}/{f}.functions.h" for f, _ in FAMILIES}
    known |= {f"planck/nn/{name}.h" for name, _ in HELPERS} | {f"planck/optim/{name}.h" for name in OPTIM}
    modules = {f"planck/nn/{name}.h" for name in MODULES}
    for name, path in sorted(headers.items()):
        if name.startswith("planck/ops/") and not name.endswith(".functions.h") or path.name == "compiled.h":
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
