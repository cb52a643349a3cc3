"""How the page of functions shows a declaration: types without backends, defaults as people say them, what ops give."""
import dataclasses
import pathlib
import re

from declarations import commas, expanded, table_rows, template_of

ROOT = pathlib.Path(__file__).resolve().parents[2]


def shown_type(t):
    t = t.replace("typename A::InnerBackend", "B")
    t = re.sub(r"\[\[nodiscard\]\]|\bconst\b|\binline\b|\bstatic\b|\bconstexpr\b|\btypename\b|&", "", t)
    t = re.sub(r"std::(?=\w)", "", t).strip()
    t = re.sub(r"(?:nn::)?Inner<\w+>", "B", t)
    t = re.sub(r"\b(Tensor|QuantizedTensor|ModelGradients|RowGradient|Sorted|RunningExtreme|Parameter|Slots)"
               r"<[AB](?:, (\w+))?>",
               lambda m: f"{m[1]}<{m[2]}>" if m[2] else m[1], t)
    return re.sub(r"\s+", " ", t).replace("nn::", "")


def shown_default(value):
    value = value.strip()
    if "default_device" in value:
        return "the default"
    if "dtype_of" in value:
        return "f32"
    if "default_dtype" in value:
        return "f32, i64 or bool"
    if value.startswith("kNo") or value == "std::nullopt":
        return "none"
    if value.startswith("k"):
        return constant(value)
    value = re.sub(r"std::same_as<K, FloatKind> \? Dtype::f32 : Dtype::i64", "i64", value)
    enums = "Dtype|BadIndices|BagMode|Granularity|Observe|QuantMath|Reduction|SampleMode|SamplePadding"
    return re.sub(rf"\b(?:{enums})::", "", value)


def constant(name):
    for path in sorted((ROOT / "planck/ops").rglob("*.h")):
        if m := re.search(rf"\b{name} = ([^;]+);", path.read_text()):
            return m[1]
    return name


def shown_parameter(parameter):
    declared, _, default = parameter.partition("=")
    words = declared.replace("&", " ").replace("...", " ").split()
    name = words[-1]
    if array := re.search(r"(\w+)\)\[\w+\]$", name):  # sizes)[N], of (&&sizes)[N]
        return f"{{{array[1]}…}}"
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
        if sign == "[]":
            call = f"x[{names[0]}]"
        elif sign in "-~" and len(names) == 1:
            call = sign + names[0]
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
    if re.fullmatch(r"operator[-+*/&|^]=", name):  # an assignment, not what it returns
        result = ""
    result = shown_type(result)
    arrow = f" → {result}" if result and result != "void" else ""
    return Function(name, call + arrow, d.comment, declared)
