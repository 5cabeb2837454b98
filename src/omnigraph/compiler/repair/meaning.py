"""Proposals for a program that parses but breaks a rule, by the code of the rule."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from omnigraph.catalog.model import NodeType
from omnigraph.catalog.types import Scalar, Struct, ValueType, Vector
from omnigraph.compiler.repair.edits import Proposal, TextEdit
from omnigraph.compiler.repair.program import SCALARS, RefusedProgram, find_name
from omnigraph.compiler.spelling import spell_edge
from omnigraph.lang.source import Diagnostic, Span

Propose = Callable[[RefusedProgram, Diagnostic, Span], Iterator[Proposal]]

_COMPARED: Final = re.compile(
    r"(?P<left>\$\w+\.\w+|\w+)\s*(?P<operator>=|!=|<=|>=|<|>|contains\b|starts_with\b|in\b)\s*"
    r"(?P<right>date(?:time)?\(\"[^\"]*\"\)|\"[^\"]*\"|\[[^\]]*\]|-?[\d.]+|\$\w+(?:\.\w+)?|\w+)"
)
_LITERAL: Final = re.compile(r"\"(?:[^\"\\]|\\.)*\"|-?\d+(?:\.\d+)?|\b(?:true|false)\b")
LIMIT_DEFAULT: Final = 10


def propose_meaning(program: RefusedProgram, fault: Diagnostic, span: Span) -> Iterator[Proposal]:
    yield from _BY_CODE.get(fault.code, _nothing)(program, fault, span)


def _nothing(_program: RefusedProgram, _fault: Diagnostic, _span: Span) -> Iterator[Proposal]:
    return iter(())


def _replace(span: Span, text: str) -> Proposal:
    return (TextEdit(span.start, span.end, text),)


# ── names ────────────────────────────────────────────────────────────────────────────────────────


def _type(program: RefusedProgram, fault: Diagnostic, span: Span) -> Iterator[Proposal]:
    """T1, T10: a type that does not exist."""
    meant = find_name(program.slice(span), fault.candidates)
    if meant is not None:
        yield _replace(span, meant)


def _edge(program: RefusedProgram, fault: Diagnostic, span: Span) -> Iterator[Proposal]:
    """T4: an edge by another name; else the only edge that joins the two ends."""
    word = program.slice(span)
    meant = find_name(word, fault.candidates)
    if meant is not None:
        yield _replace(span, meant)
    yield from _joining(program, span)


def _joining(program: RefusedProgram, span: Span) -> Iterator[Proposal]:
    for walk in program.near(r"\$(\w+)\s+(?:\$\w+\s*:\s*)?<?(\w+)>?[^$\n]*?\$(\w+)", span):
        ends = [program.types.get(walk[each]) for each in (1, 3)]
        names = [None if each is None else each.name for each in ends]
        joining = program.edges_between(names[0], names[1])
        if len(joining) == 1 and any(names):
            yield _replace(Span(*walk.span(2)), spell_edge(joining[0].family))


def _ends(program: RefusedProgram, _: Diagnostic, span: Span) -> Iterator[Proposal]:
    """T5: an edge that does not connect these types."""
    yield from _joining(program, span)


def _property(program: RefusedProgram, fault: Diagnostic, span: Span) -> Iterator[Proposal]:
    """T2, T6, T11: a property that its type does not have, or a variable that is not bound."""
    word = program.slice(span)
    if word.startswith("$"):
        yield from _variable(program, fault, span)
        return
    if word in ("src", "dst"):
        yield _replace(span, {"src": "from", "dst": "to"}[word])
    yield from _edge_property(program, word, span)
    meant = find_name(word, fault.candidates)
    if meant is not None:
        yield _replace(span, meant)
    owners = program.owners(word)
    reference = re.compile(r"\$\w+\.\Z").search(program.text, 0, span.start)
    if len(owners) == 1 and reference is not None:
        yield (TextEdit(reference.start(), reference.end(), f"${owners[0]}."),)


def _edge_property(program: RefusedProgram, word: str, span: Span) -> Iterator[Proposal]:
    """`$p.since` where the edge has it: bind the edge, and read it there."""
    reference = re.compile(r"\$(\w+)\.\Z").search(program.text, 0, span.start)
    if reference is None:
        return
    variable = re.escape(reference[1])
    pattern = r"\$(\w+)\s+([a-z_]\w*)\s+\$(\w+)"
    for walk in program.finditer(pattern):
        edge = program.catalog.edge_named(walk[2])
        is_at = re.fullmatch(variable, walk[1]) or re.fullmatch(variable, walk[3])
        if edge is not None and edge.named(word) is not None and is_at:
            name = _fresh(program, "e")
            uses = [
                TextEdit(*each.span(), f"${name}.{word}")
                for each in program.finditer(rf"\${variable}\.{re.escape(word)}\b")
            ]
            yield tuple(
                sorted([TextEdit(walk.start(2), walk.start(2), f"${name}:"), *uses], key=_start)
            )


def _start(edit: TextEdit) -> int:
    return edit.start


def _fresh(program: RefusedProgram, name: str) -> str:
    taken = set(re.findall(r"\$(\w+)", program.masked))
    return next(each for at in range(1_000) if (each := f"{name}{at or ''}") not in taken)


def _variable(program: RefusedProgram, fault: Diagnostic, span: Span) -> Iterator[Proposal]:
    """U4, T6, T14: `$x` that is neither declared nor bound."""
    word = program.slice(span)
    if not word.startswith("$"):
        return
    yield from _move_up(program, word)
    meant = find_name(word[1:], [each[1:] for each in fault.candidates])
    if meant is not None:
        yield _replace(span, f"${meant}")
    is_read = program.masked[span.end : span.end + 1] == "."
    if not is_read:
        yield from _declare(program, word[1:])
        return
    yield from _bind(program, word[1:])


def _move_up(program: RefusedProgram, word: str) -> Iterator[Proposal]:
    """A binding that stands below its first use goes to the top of `match`."""
    opening = next(program.finditer(r"\bmatch\s*\{"), None)
    pattern = rf"{re.escape(word)}\s*:\s*[A-Z]\w*(?:\s*\{{[^{{}}]*\}})?"
    for binding in program.finditer(pattern):
        if opening is not None and binding.start() > opening.end():
            text = program.group(binding)
            yield (
                TextEdit(opening.end(), opening.end(), f" {text} "),
                TextEdit(*binding.span(), ""),
            )


def _bind(program: RefusedProgram, name: str) -> Iterator[Proposal]:
    """A variable that is read but never bound: by its name, and the edge that joins it."""
    opening = next(program.finditer(r"\bmatch\s*\{"), None)
    closing = next(program.finditer(r"\}\s*(?=return\b)"), None)
    if opening is None or closing is None:
        return
    nodes = [each.name for each in program.catalog.nodes]
    read = {each[1] for each in program.finditer(rf"\${re.escape(name)}\.(\w+)")}
    meant = find_name(name, nodes)
    if meant is None:
        initial = [each for each in nodes if each.lower().startswith(name.lower())]
        fitting = [each for each in initial or nodes if _has_all(program, each, read)]
        meant = fitting[0] if len(fitting) == 1 else None
    if meant is None or not _has_all(program, meant, read):
        return
    for variable, of_type in program.types.items():
        joining = program.edges_between(of_type.name, meant)
        if isinstance(of_type, NodeType) and len(joining) == 1:
            walk = f"${variable} {spell_edge(joining[0].family)} ${name} "
            yield (TextEdit(closing.start(), closing.start(), walk),)
    if not program.variables:
        yield (TextEdit(opening.end(), opening.end(), f" ${name}: {meant} "),)


def _has_all(program: RefusedProgram, type_name: str, names: set[str]) -> bool:
    node = program.catalog.node(type_name)
    return node is not None and all(node.named(each) is not None for each in names)


def _word(program: RefusedProgram, fault: Diagnostic, span: Span) -> Iterator[Proposal]:
    """U8: a bare word. It is text, a variable without its sign, an alias, or a property."""
    word = program.slice(span)
    compared = next(program.near(rf"\$(\w+)\.(\w+)\s*(?:=|!=)\s*{re.escape(word)}\b", span), None)
    if compared is not None and compared.end() == span.end:
        owner = program.types.get(compared[1])
        found = None if owner is None else owner.named(compared[2])
        if found is not None and found.type.enum_values is not None:
            meant = find_name(word, found.type.enum_values)
            if meant is not None:
                yield _replace(span, f'"{meant}"')
        if found is not None and found.type.is_string:
            yield _replace(span, f'"{word}"')
    if word in program.types or word in program.parameters:
        yield _replace(span, f"${word}")
    owners = program.owners(word)
    if len(owners) == 1:
        yield _replace(span, f"${owners[0]}.{word}")
    if fault.candidates and (meant := find_name(word, fault.candidates)) is not None:
        yield _replace(span, meant)
    if not owners and len(program.types) == 1:
        (variable, owner), *_ = program.types.items()
        meant = find_name(word, [each.spelling for each in owner.properties])
        if meant is not None:
            yield _replace(span, f"${variable}.{meant}")
    yield _replace(span, f'"{word}"')


# ── parameters ───────────────────────────────────────────────────────────────────────────────────


def _declare(program: RefusedProgram, name: str) -> Iterator[Proposal]:
    """Declare a parameter, with the type that its use asks for."""
    value_type = _type_of_use(program, name)
    if value_type is not None:
        yield from _declare_as(program, name, value_type)


def _declare_as(program: RefusedProgram, name: str, value_type: str) -> Iterator[Proposal]:
    if program.head is not None:
        at = program.head.end(1)
        glue = ", " if program.head[1].strip() else ""
        yield (TextEdit(at, at, f"{glue}${name}: {value_type}"),)


def _type_of_use(program: RefusedProgram, name: str) -> str | None:
    escaped = re.escape(name)
    for match in program.finditer(rf"\$(\w+)\.(\w+)\s*(?:[=!<>]+|\w+)\s*\${escaped}\b"):
        owner = program.types.get(match[1])
        if owner is not None and (found := owner.named(match[2])) is not None:
            in_list = re.search(r"\bin\s*\$", match[0]) is not None
            return f"[{_spell(found.type)}]" if in_list else _spell(found.type)
    for match in program.finditer(rf"\b(\w+)\s*(?::|=|!=|[<>]=?)\s*\${escaped}\b"):
        if (value_type := _type_of_column(program, match)) is not None:
            return value_type
    if any(program.finditer(rf"\b(?:limit|offset)\s*\${escaped}\b")):
        return Scalar.I64.value
    for match in program.finditer(rf"\bnearest\s*\(\s*\$(\w+)\.(\w+)\s*,\s*\${escaped}\b"):
        owner = program.types.get(match[1])
        if owner is not None and (found := owner.named(match[2])) is not None:
            return _spell(found.type)
    pattern = rf"\b(?:search|match_text|fuzzy|bm25)\s*\([^()]*,\s*\${escaped}\b"
    return Scalar.STRING.value if any(program.finditer(pattern)) else None


def _type_of_column(program: RefusedProgram, match: re.Match[str]) -> str | None:
    """`name: $x` and `where name = $x`: of the type whose statement or binding holds it."""
    pattern = r"(?:\b(?:insert|update|delete)\s+|\$\w+\s*:\s*)([A-Z]\w*)"
    heads = [each for each in program.finditer(pattern) if each.start() < match.start()]
    owner = (
        program.catalog.node(heads[-1][1]) or program.catalog.edge(heads[-1][1]) if heads else None
    )
    if owner is None:
        return None
    if match[1] in ("from", "to") and not isinstance(owner, NodeType):
        return Scalar.STRING.value
    found = owner.named(match[1])
    return None if found is None else _spell(found.type)


def _spell(value_type: ValueType) -> str:
    """The type as a parameter declares it: without `?`, an enum as its String."""
    base = value_type.base
    assert not isinstance(base, Struct), "no parameter is an object"
    name = f"Vector({base.dimension})" if isinstance(base, Vector) else base.value
    return f"[{name}]" if value_type.is_list else name


def _parameter_type(program: RefusedProgram, fault: Diagnostic, span: Span) -> Iterator[Proposal]:
    """U2: a type by its name in another language."""
    word = program.slice(span)
    base = re.search(r"\w+", word)
    if base is None:
        return
    scalar = SCALARS.get(base[0].lower())
    meant = scalar.value if scalar is not None else find_name(base[0], fault.candidates)
    if meant is not None:
        yield _replace(span, word.replace(base[0], meant, 1))
    else:
        yield from _retype_by_use(program, span)


def _retype_by_use(program: RefusedProgram, span: Span) -> Iterator[Proposal]:
    """An enum or node type as the type of a parameter: take what its use asks for."""
    declared = re.compile(r"\$(\w+)\s*:\s*\Z").search(program.text, 0, span.start)
    if declared is not None and (meant := _type_of_use(program, declared[1])) is not None:
        yield _replace(span, meant)


def _missing_property(program: RefusedProgram, fault: Diagnostic, span: Span) -> Iterator[Proposal]:
    """T12: a required property, as a new parameter."""
    named = re.search(r"property '(\w+)'", fault.message)
    opening = re.compile(r"[^{}]*\{").match(program.masked, span.end)
    owner = program.catalog.node(program.slice(span)) or program.catalog.edge(program.slice(span))
    if named is None or opening is None or owner is None or program.head is None:
        return
    found = owner.named(named[1])
    value_type = Scalar.STRING.value if found is None else _spell(found.type)
    name = _fresh(program, named[1])
    glue = ", " if program.head[1].strip() else ""
    at = program.head.end(1)
    yield (
        TextEdit(at, at, f"{glue}${name}: {value_type}"),
        TextEdit(opening.end(), opening.end(), f" {named[1]}: ${name},"),
    )


# ── values ───────────────────────────────────────────────────────────────────────────────────────


def _value(program: RefusedProgram, fault: Diagnostic, span: Span) -> Iterator[Proposal]:
    """T3, U13, T7 in mutations: a literal that its property cannot hold."""
    for literal in _LITERAL.finditer(program.text, span.start, span.end):
        text = literal[0].strip('"')
        if fault.candidates:
            meant = find_name(text, fault.candidates)
            if meant is not None:
                yield (TextEdit(*literal.span(), f'"{meant}"'),)
        for wanted in fault.expected:
            yield from _convert(literal, wanted)
    listed = re.compile(r"\[\s*([^\[\],]+?)\s*\]").search(program.text, span.start, span.end)
    if listed is not None:
        yield (TextEdit(*listed.span(), listed[1]),)
    if any(each.startswith("[") for each in fault.expected):
        text = program.slice(span)
        if not text.startswith("["):
            yield _replace(span, f"[{text}]")


def _convert(literal: re.Match[str], wanted: str) -> Iterator[Proposal]:
    """A literal in the spelling of another type."""
    text, base = literal[0].strip('"'), wanted.rstrip("?")
    spelled = None
    if base == Scalar.DATE:
        spelled = None if (day := _date(text)) is None else f'date("{day}")'
    elif base == Scalar.DATETIME:
        spelled = None if (moment := _moment(text)) is None else f'datetime("{moment}")'
    elif base == Scalar.BOOL:
        spelled = text.lower() if text.lower() in ("true", "false") else None
    elif base == Scalar.STRING:
        spelled = f'"{text}"'
    elif base.startswith(("I", "U", "F")) and base[1:].isdigit():
        spelled = _number(text, base)
    if spelled is not None and spelled != literal[0]:
        yield (TextEdit(*literal.span(), spelled),)


def _number(text: str, base: str) -> str | None:
    plain = text.replace(",", "").replace("_", "").strip()
    if re.fullmatch(r"-?\d+", plain) or (
        base.startswith("F") and re.fullmatch(r"-?\d+\.\d+", plain)
    ):
        return plain
    return plain.partition(".")[0] if re.fullmatch(r"-?\d+\.0+", plain) else None


def _date(text: str) -> str | None:
    found = re.fullmatch(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?:T.*)?", text.strip())
    return None if found is None else f"{found[1]}-{int(found[2]):02}-{int(found[3]):02}"


def _moment(text: str) -> str | None:
    found = re.fullmatch(
        r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d(?:\.\d+)?)?)?\s*(Z|[+-]\d\d:\d\d)?",
        text.strip(),
    )
    if found is None:
        return None
    return f"{found[1]}T{found[2] or '00:00'}{found[3] or ':00'}{found[4] or 'Z'}"


def _comparison(program: RefusedProgram, fault: Diagnostic, span: Span) -> Iterator[Proposal]:
    """T7: a comparison of a property with a value of another type."""
    for match in _COMPARED.finditer(program.text, span.start, span.end):
        wanted = _compared_type(program, match["left"]) or next(iter(fault.expected), None)
        right = match["right"]
        if wanted is None:
            continue
        literal = _LITERAL.match(program.text, match.start("right"))
        if right.startswith("["):
            if match["operator"] == "=":
                yield (TextEdit(*match.span("operator"), "in"),)
        elif right.startswith("$") and "." not in right:
            yield from _retype(program, right[1:], wanted.rstrip("?"))
        elif literal is not None:
            yield from _convert(literal, wanted)
        if wanted.startswith("[") and match["operator"] == "=":
            yield (TextEdit(*match.span("operator"), "contains"),)


def _compared_type(program: RefusedProgram, left: str) -> str | None:
    if not left.startswith("$") or "." not in left:
        return None
    variable, name = left[1:].split(".")
    owner = program.types.get(variable)
    found = None if owner is None else owner.named(name)
    return None if found is None else _spell(found.type)


def _retype(program: RefusedProgram, name: str, wanted: str) -> Iterator[Proposal]:
    """Declare a parameter with the type of the property that it is compared with."""
    if program.head is None:
        return
    declared = re.compile(rf"\${re.escape(name)}\s*:\s*([^,()]+(?:\(\d+\))?)")
    found = declared.search(program.masked, program.head.start(1), program.head.end(1))
    if found is not None:
        yield (TextEdit(*found.span(1), wanted),)


def _null(program: RefusedProgram, _: Diagnostic, span: Span) -> Iterator[Proposal]:
    """U11: `= null` is `is null`."""
    for match in program.near(r"\s*(=|!=)\s*null\b", span):
        yield (TextEdit(*match.span(), " is null" if match[1] == "=" else " is not null"),)
    pattern = r"(\$\w+)(\s*:\s*[A-Z]\w*)\s*\{\s*(\w+)\s*:\s*null\s*\}"
    for match in program.near(pattern, span):
        text = f"{match[1]}{match[2]}  {match[1]}.{match[3]} is null"
        yield (TextEdit(*match.span(), text),)


# ── patterns, columns, limits ────────────────────────────────────────────────────────────────────


def _unbound(_: RefusedProgram, fault: Diagnostic, span: Span) -> Iterator[Proposal]:
    """U6: the binding that the hint names, before the traversal."""
    binding = re.search(r"`(\$\w+: \w+)`", fault.hint or "")
    if binding is not None:
        yield (TextEdit(span.start, span.start, f"{binding[1]}  "),)


def _rebound(program: RefusedProgram, fault: Diagnostic, span: Span) -> Iterator[Proposal]:
    """U3: a binding that keeps some of several types, or below a traversal that read another."""
    binding = re.compile(r"(\$\w+)\s*:\s*(\w+)(?!\s*[|{])").match(program.masked, span.start)
    if binding is not None and fault.hint is not None and "@type" in fault.hint:
        yield (TextEdit(*binding.span(), f'{binding[1]}.@type = "{binding[2]}"'),)
    yield from _move_up(program, program.slice(span))


def _column(program: RefusedProgram, _: Diagnostic, span: Span) -> Iterator[Proposal]:
    """U7: two columns of one name; the second gets a name of its own."""
    text = program.slice(span)
    alias = re.search(r"\bas\s+(\w+)\s*\Z", text)
    plain = text if alias is None else text[: alias.start()].rstrip()
    words = re.findall(r"\w+", plain)
    for name in ("_".join(words), f"{'_'.join(words)}_2"):
        yield _replace(span, f"{plain} as {name.lower()}")


def _limit(program: RefusedProgram, _: Diagnostic, span: Span) -> Iterator[Proposal]:
    """T17, T21: a ranking without a limit."""
    closing = re.compile(r"[^{}]*\}").match(program.masked, span.end)
    if closing is not None:
        yield (TextEdit(closing.end(), closing.end(), f" limit {LIMIT_DEFAULT}"),)


def _undirected(program: RefusedProgram, _: Diagnostic, span: Span) -> Iterator[Proposal]:
    """T22: an edge between two types has no need of `<…>`."""
    for match in program.near(r"<\s*(\w+(?:\s*\|\s*\w+)*)\s*>", span):
        yield (TextEdit(*match.span(), match[1]),)


def _hops(program: RefusedProgram, _: Diagnostic, span: Span) -> Iterator[Proposal]:
    """T15: hops in the wrong order."""
    found = re.fullmatch(r"\{\s*(\d+)\s*,\s*(\d+)?\s*\}", program.slice(span))
    if found is not None and found[2] is not None:
        yield _replace(span, f"{{{found[2]},{found[1]}}}")


def _texts(program: RefusedProgram, _: Diagnostic, span: Span) -> Iterator[Proposal]:
    """T19, T20: the parameter of a search is a String."""
    for match in re.finditer(r"\$(\w+)\s*\)", program.slice(span)):
        yield from _retype(program, match[1], Scalar.STRING.value)


_BY_CODE: Final[Mapping[str, Propose]] = {
    "T1": _type,
    "T2": _property,
    "T3": _value,
    "T4": _edge,
    "T5": _ends,
    "T6": _property,
    "T7": _comparison,
    "T10": _type,
    "T11": _property,
    "T12": _missing_property,
    "T14": _variable,
    "T15": _hops,
    "T17": _limit,
    "T19": _texts,
    "T20": _texts,
    "T21": _limit,
    "T22": _undirected,
    "U2": _parameter_type,
    "U3": _rebound,
    "U4": _variable,
    "U6": _unbound,
    "U7": _column,
    "U8": _word,
    "U11": _null,
    "U13": _value,
}
