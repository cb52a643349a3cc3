"""Reads the declarations of a C++ header: what these headers use, not the language.

Known are namespaces, templates, functions, structs, and macros that make one function or struct from each line, or
from each line of a table (*.table.h) that is included below them. A comment belongs to the declaration below it, or
stands behind a line of a macro; a table says what its functions mean in a formula.
"""
import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass
class Declaration:
    comment: str
    head: str      # "template <class B> Tensor<B> softmax(const Tensor<B>& x, int axis = -1)"
    body: str      # between the braces
    line: int


def read_file(path):
    """The opening comment and the declarations of a header, those of detail namespaces left out."""
    text = path.read_text()
    lines = text.splitlines()
    opening = [line[2:].strip() for line in lines[:next(i for i, l in enumerate(lines) if l[:2] != "//")]]
    macros = {}
    out = []
    comment = []
    hidden = 0  # depth of namespaces that are left out
    i = 0
    while i < len(lines):
        line = lines[i]
        start = i
        i += 1
        if line.startswith("#define"):
            while lines[i - 1].endswith("\\"):
                i += 1
            whole = " ".join(l.rstrip("\\").strip() for l in lines[start:i])
            m = re.match(r"#define (\w+)\(([^)]*)\)\s*(.*)", whole)
            if m:
                macros[m[1]] = ([p.strip() for p in m[2].split(",")], m[3])
            elif (m := re.match(r"#define (\w+) (\w+)$", line)) and m[2] in macros:
                macros[m[1]] = macros[m[2]]
            comment = []
        elif m := re.match(r'#include "(planck/.*\.table\.h)"', line):
            for row in table_rows(ROOT / m[1]):
                if row.macro in macros:
                    out.append(split(row.meaning, expanded(macros[row.macro], row.arguments), start + 1))
        elif line.startswith("//"):
            comment.append(line[2:].strip())
        elif line.startswith("namespace"):
            hidden += hidden > 0 or "detail" in line
            comment = []
        elif line.startswith("}"):
            hidden -= hidden > 0
            comment = []
        elif m := re.match(r"(\w+)\(([^)]*)\)(?:\s*//\s*(.*))?$", line) if line.split("(")[0] in macros else None:
            out.append(split(m[3] or "", expanded(macros[m[1]], m[2].split(",")), start + 1))
        elif not line or line.startswith("#"):
            comment = []
        else:
            i = end_of(lines, start)
            if not hidden:
                words = " ".join(c for c in comment if not c.startswith("----"))
                behind = re.search(r"\{\s*//\s*(.*)", line)
                made = "\n".join(lines[start:i])
                d = split(words or (behind[1] if behind else ""), made, start + 1)
                if not is_definition(d.head):
                    out.append(d)
            comment = []
    return " ".join(opening), out


def is_definition(head):
    """Of a member outside of its class, of what PLANCK_COMPILE_… has compiled elsewhere, or for lists of parts: no
    function of its own."""
    before, _, parameters = template_of(head)[1].partition("(")
    return "::" in before.split(" ")[-1] or head.startswith(("PLANCK_", "extern")) or \
        parameters.startswith("const PartList&")


def expanded(macro, arguments):
    parameters, made = macro
    for name, value in zip(parameters, arguments):
        if name != "...":
            made = re.sub(rf"#{name}\b", f'"{value.strip()}"', made)
            made = re.sub(rf"\b{name}\b", value.strip(), made)
    return made


@dataclasses.dataclass
class Row:
    macro: str
    arguments: list  # those before the formula
    meaning: str     # the formula, and the remark behind the line


def table_rows(path):
    """PLANCK_UNARY_OP(exp, Exp, floats, 1.1, "y = e^x")  // a remark"""
    for m in re.finditer(r'^(\w+)\(([^"\n]*),\s*"([^"]*)"[^)\n]*\)(?: *// *(.*))?$', path.read_text(), re.M):
        yield Row(m[1], [a.strip() for a in m[2].split(",")], typeset(m[3]) + (f", {m[4]}" if m[4] else ""))


def typeset(formula):
    text = formula.removeprefix("y = ").replace("e^-x", "e⁻ˣ").replace("e^x", "eˣ").replace("x * x", "x²")
    text = re.sub(r"sqrt\((\w)\)", r"√\1", text).replace("log(x)", "ln x").replace("log(", "ln(")
    return text.replace("-", "−").replace(" * ", " · ")


def end_of(lines, start):
    """The line after a declaration, which goes to a semicolon or to the brace that closes its body."""
    depth = 0
    for i in range(start, len(lines)):
        code = re.sub(r'"(\\.|[^"])*"', '""', re.sub(r"//.*", "", lines[i])).rstrip()
        depth += code.count("{") + code.count("(") - code.count("}") - code.count(")")
        if depth == 0 and code.endswith((";", "}")):
            return i + 1
    return len(lines)


def split(comment, text, line):
    """Cuts a declaration before the brace of its body."""
    depth = 0
    brackets = re.sub(r"operator[<>]{1,2}=?|->|=>", lambda m: "_" * len(m[0]), text)
    for at, c in enumerate(brackets):
        depth += (c in "(<") - (c in ")>")
        if c == "{" and depth == 0 and not text[:at].rstrip().endswith("="):
            return Declaration(comment, flat(text[:at]), text[at + 1:], line)
    return Declaration(comment, flat(text.rstrip("; \n")), "", line)


def flat(text):
    """In one line, without comments."""
    return re.sub(r"\s+", " ", re.sub(r"//[^\n]*", "", text)).strip()


def balanced(text, opening="<", closing=">"):
    """The length of the bracketed part that text begins with."""
    depth = 0
    for at, c in enumerate(text):
        depth += (c == opening) - (c == closing)
        if depth == 0:
            return at + 1
    return len(text)


def commas(text):
    """The parts between the commas that are in no brackets."""
    parts, depth, start = [], 0, 0
    for at, c in enumerate(text):
        depth += (c in "(<{[") - (c in ")>}]")
        if c == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [p.strip() for p in parts + [text[start:]] if p.strip()]


def template_of(head):
    """Template parameters, and what follows them."""
    if not head.startswith("template"):
        return [], head
    rest = head[len("template"):].strip()
    end = balanced(rest)
    return commas(rest[1:end - 1]), rest[end:].strip()


# Results of members that the compiler finds.
DEDUCED = {"shape": "Shape", "device": "Device", "backward": "Gradients", "grad": "optional<Tensor>",
           "inner": "Tensor<K>"}


def members(path):
    """Public members of class Tensor, or of a kind of it, as declarations."""
    text = path.read_text()
    body = text[re.search(r"class Tensor(<.*>)? \{", text).start():text.index("\n private:")]
    body = body[body.rindex("explicit Tensor"):]
    body = body[body.index("\n") + 1:]
    found, lines, comment, i = [], body.split("\n"), [], 0
    while i < len(lines):
        line = lines[i].strip()
        start = i
        i += 1
        if line.startswith("//"):
            comment.append(line[2:].strip())
            continue
        if not line:
            comment = []
            continue
        i = end_of(lines, start)
        made = "\n".join(lines[start:i])
        made = re.sub(r"^(  )(?:auto|decltype\(auto\)) (\w+)", lambda m: f"{m[1]}{DEDUCED[m[2]]} {m[2]}", made,
                      flags=re.M)
        made = re.sub(r"requires std::same_as<[^\n]*\n", "", made)
        made = re.sub(r" (?:const&?|&&)? ?requires AutodiffBackend<B>", "", made)
        d = split(" ".join(comment), made, start)
        if not re.match(r"\s*(const Primitive|Primitive|friend|explicit)", d.head):
            found.append(d)
        comment = []
    return found
