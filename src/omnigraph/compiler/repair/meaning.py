"""Proposals for a program that parses but breaks a rule, by the code of the rule."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from omnigraph.catalog.model import NodeType
from omnigraph.catalog.types import Scalar
from omnigraph.compiler.repair.arrows import propose_arrows
from omnigraph.compiler.repair.edits import Proposal, TextEdit, replace
from omnigraph.compiler.repair.functions import propose_functions
from omnigraph.compiler.repair.habits import KEYWORDS
from omnigraph.compiler.repair.parameters import (
    propose_missing_property,
    propose_parameter,
    propose_parameter_type,
    retype,
)
from omnigraph.compiler.repair.program import RefusedProgram, find_name, fresh_name
from omnigraph.compiler.repair.values import propose_comparison, propose_null, propose_value
from omnigraph.compiler.spelling import spell_edge
from omnigraph.lang.source import Diagnostic, Span

Propose = Callable[[RefusedProgram, Diagnostic, Span], Iterator[Proposal]]

LIMIT_DEFAULT: Final = 10


def propose_meaning(program: RefusedProgram, fault: Diagnostic, span: Span) -> Iterator[Proposal]:
    yield from _BY_CODE.get(fault.code, _nothing)(program, fault, span)


def _nothing(_program: RefusedProgram, _fault: Diagnostic, _span: Span) -> Iterator[Proposal]:
    return iter(())


def _type(program: RefusedProgram, fault: Diagnostic, span: Span) -> Iterator[Proposal]:
    """T1, T10: a type that does not exist."""
    meant = find_name(program.slice(span), fault.candidates)
    if meant is not None:
        yield replace(span, meant)


def _edge(program: RefusedProgram, fault: Diagnostic, span: Span) -> Iterator[Proposal]:
    """T4: an edge by another name; else the only edge that joins the two ends."""
    word = program.slice(span)
    meant = find_name(word, fault.candidates)
    if meant is not None:
        yield replace(span, meant)
    yield from _joining(program, span)


def _joining(program: RefusedProgram, span: Span) -> Iterator[Proposal]:
    for walk in program.near(r"\$(\w+)\s+(?:\$\w+\s*:\s*)?<?(\w+)>?[^$\n]*?\$(\w+)", span):
        ends = [program.types.get(walk[each]) for each in (1, 3)]
        names = [None if each is None else each.name for each in ends]
        joining = program.edges_between(names[0], names[1])
        if len(joining) == 1 and any(names):
            yield replace(Span(*walk.span(2)), spell_edge(joining[0].family))


def _ends(program: RefusedProgram, _: Diagnostic, span: Span) -> Iterator[Proposal]:
    """T5: an edge that does not connect these types."""
    yield from _joining(program, span)


def _property(program: RefusedProgram, fault: Diagnostic, span: Span) -> Iterator[Proposal]:
    """T2, T6, T11: a property that its type does not have, or a variable that is not bound."""
    word = program.slice(span)
    if word.startswith("$"):
        yield from _variable(program, fault, span)
        return
    if (end := program.end_word(word, span)) is not None:
        yield replace(span, end)
    if word.strip("_") in ("id", "Id", "ID"):
        yield from _system_id(program, span)
    yield from _edge_property(program, word, span)
    yield from _walked(program, word, span)
    meant = find_name(word, fault.candidates)
    if meant is not None:
        yield replace(span, meant)
    owners = program.owners(word)
    reference = re.compile(r"\$\w+\.\Z").search(program.text, 0, span.start)
    if len(owners) == 1 and reference is not None:
        yield (TextEdit(reference.start(), reference.end(), f"${owners[0]}."),)


def _walked(program: RefusedProgram, word: str, span: Span) -> Iterator[Proposal]:
    """`$p.knows` where `knows` is an edge: what `$p knows` leads to."""
    reference = re.compile(r"\$(\w+)\.\Z").search(program.text, 0, span.start)
    edges = program.catalog.edges_named(word)
    if reference is None or not edges:
        return
    pattern = rf"\${reference[1]}\s*:\s*[A-Z]\w*(?:\s*\{{[^{{}}]*\}})?"
    binding = next(program.finditer(pattern), None)
    if binding is not None and binding.end() <= reference.start():
        name = fresh_name(program, word[0])
        walk = f"  ${reference[1]} {spell_edge(edges[0].family)} ${name} "
        at = binding.end()
        yield (TextEdit(at, at, walk), TextEdit(reference.start(), span.end, f"${name}"))


def _system_id(program: RefusedProgram, span: Span) -> Iterator[Proposal]:
    """`$p.id` is `$p.@id`, and so is the only value that a binding asks about."""
    if program.text[: span.start].endswith("."):
        yield replace(span, "@id")
    pattern = r"(\$\w+)(\s*:\s*[A-Z]\w*)\s*\{\s*\w+\s*:\s*([^{},]+?)\s*\}"
    for match in program.near(pattern, span):
        text = f"{match[1]}{match[2]}  {match[1]}.@id = {program.group(match, 3)}"
        yield (TextEdit(*match.span(), text),)


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
            name = fresh_name(program, "e")
            uses = [
                TextEdit(*each.span(), f"${name}.{word}")
                for each in program.finditer(rf"\${variable}\.{re.escape(word)}\b")
            ]
            yield tuple(
                sorted([TextEdit(walk.start(2), walk.start(2), f"${name}:"), *uses], key=_start)
            )


def _start(edit: TextEdit) -> int:
    return edit.start


def _variable(program: RefusedProgram, fault: Diagnostic, span: Span) -> Iterator[Proposal]:
    """U4, T6, T14: `$x` that is neither declared nor bound."""
    word = program.slice(span)
    if not word.startswith("$"):
        return
    yield from _move_up(program, word)
    meant = find_name(word[1:], [each[1:] for each in fault.candidates])
    if meant is not None:
        yield replace(span, f"${meant}")
    is_read = program.masked[span.end : span.end + 1] == "."
    if not is_read:
        yield from propose_parameter(program, word[1:])
        return
    yield from _bind(program, word[1:])


def _move_up(program: RefusedProgram, word: str) -> Iterator[Proposal]:
    """A binding that stands below its first use goes to the top of its block."""
    pattern = rf"{re.escape(word)}\s*:\s*[A-Z]\w*(?:\s*\{{[^{{}}]*\}})?"
    for binding in program.finditer(pattern):
        at = program.block_start(binding.start())
        if at is not None and at > program.start:
            text = program.group(binding)
            yield (TextEdit(at, at, f" {text} "), TextEdit(*binding.span(), ""))


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
    yield from _alias_in_front(program, span)
    compared = next(program.near(rf"\$(\w+)\.(\w+)\s*(?:=|!=)\s*{re.escape(word)}\b", span), None)
    if compared is not None and compared.end() == span.end:
        owner = program.types.get(compared[1])
        found = None if owner is None else owner.named(compared[2])
        if found is not None and found.type.enum_values is not None:
            meant = find_name(word, found.type.enum_values)
            if meant is not None:
                yield replace(span, f'"{meant}"')
        if found is not None and found.type.is_string:
            yield replace(span, f'"{word}"')
    if any(program.finditer(rf"\${re.escape(word)}\b")):
        yield replace(span, f"${word}")
    yield from propose_arrows(program, span)
    owners = program.owners(word)
    if len(owners) == 1:
        yield replace(span, f"${owners[0]}.{word}")
        everywhere = program.finditer(rf"(?<![\w$.@])(?<!as ){re.escape(word)}\b(?!\s*[(:.])")
        yield tuple(TextEdit(*each.span(), f"${owners[0]}.{word}") for each in everywhere)
    if fault.candidates and (meant := find_name(word, fault.candidates)) is not None:
        yield replace(span, meant)
    if not owners and len(program.types) == 1:
        (variable, owner), *_ = program.types.items()
        meant = find_name(word, [each.spelling for each in owner.properties])
        if meant is not None:
            yield replace(span, f"${variable}.{meant}")
    if word not in KEYWORDS and not owners:
        yield replace(span, f'"{word}"')


def _alias_in_front(program: RefusedProgram, span: Span) -> Iterator[Proposal]:
    """`return { name = $p.name }` names its column in front."""
    opening = program.block_start(span.start)
    if opening is None or not program.text[:opening].rstrip("{ \n").endswith(("return", "with")):
        return
    value = r"(\w+)\s*=\s*([^{},()]+(?:\([^()]*\))?)(?=\s*[,}])"
    for match in program.near(value, span):
        if match.start() == span.start:
            text = f"{program.group(match, 2).strip()} as {match[1]}"
            yield (TextEdit(*match.span(), text),)


# ── patterns, columns, limits ────────────────────────────────────────────────────────────────────


def _aggregate(program: RefusedProgram, _: Diagnostic, span: Span) -> Iterator[Proposal]:
    """U12, U19: a condition on groups is asked in `having`, of what is returned."""
    returned = next(program.finditer(r"\breturn\s*\{[^{}]*\}"), None)
    asked = (
        r"(?:\b(?:and|where)\s+)?(\b(?:count|sum|avg|min|max)\s*\([^()]*\))\s*([=!<>]+)\s*([$\w.]+)"
    )
    for match in program.near(asked, span):
        if returned is None:
            return
        name = fresh_name(program, "n")
        column = TextEdit(returned.end() - 1, returned.end() - 1, f", {match[1]} as {name} ")
        having = f" having {{ {name} {match[2]} {match[3]} }}"
        if match.start() < returned.start():
            after = TextEdit(returned.end(), returned.end(), having)
            yield (TextEdit(*match.span(), ""), column, after)
        else:
            yield (column, TextEdit(*match.span(1), name))


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


def _named(program: RefusedProgram, _: Diagnostic, span: Span) -> Iterator[Proposal]:
    """U22: a value that `with` hands on gets the name of its property or function."""
    text = program.slice(span)
    words = re.findall(r"\w+", text)
    name = words[0] if "(" in text else words[-1]
    yield replace(Span(span.end, span.end), f" as {name}")
    yield replace(Span(span.end, span.end), f" as {fresh_name(program, name)}")


def _column(program: RefusedProgram, _: Diagnostic, span: Span) -> Iterator[Proposal]:
    """U7: two columns of one name; the second gets another, or is an element of the first."""
    text = program.slice(span)
    index = re.compile(r"\s*\[(\d)\]").match(program.text, span.end)
    if index is not None:
        place = int(index[1]) + 1
        for call in (f"at({text}, {place})", f"substring({text}, {place}, 1)"):
            yield (TextEdit(span.start, index.end(), call),)
        return
    alias = re.search(r"\bas\s+(\w+)\s*\Z", text)
    plain = text if alias is None else text[: alias.start()].rstrip()
    words = re.findall(r"\w+", plain)
    for name in ("_".join(words), f"{'_'.join(words)}_2"):
        yield replace(span, f"{plain} as {name.lower()}")


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
        yield replace(span, f"{{{found[2]},{found[1]}}}")


def _texts(program: RefusedProgram, _: Diagnostic, span: Span) -> Iterator[Proposal]:
    """T19, T20: the parameter of a search is a String."""
    for match in re.finditer(r"\$(\w+)\s*\)", program.slice(span)):
        yield from retype(program, match[1], Scalar.STRING.value)


def _function(program: RefusedProgram, _: Diagnostic, span: Span) -> Iterator[Proposal]:
    """E1, E2, T8: functions by other names, texts that are added."""
    yield from propose_functions(program, span)


_BY_CODE: Final[Mapping[str, Propose]] = {
    "T1": _type,
    "T2": _property,
    "T3": propose_value,
    "T4": _edge,
    "T5": _ends,
    "T6": _property,
    "T7": propose_comparison,
    "T8": _function,
    "T10": _type,
    "T11": _property,
    "T12": propose_missing_property,
    "T14": _variable,
    "T15": _hops,
    "T17": _limit,
    "T19": _texts,
    "T20": _texts,
    "T21": _limit,
    "T22": _undirected,
    "U2": propose_parameter_type,
    "U3": _rebound,
    "U4": _variable,
    "U6": _unbound,
    "U7": _column,
    "U8": _word,
    "U11": propose_null,
    "U12": _aggregate,
    "U13": propose_value,
    "U19": _aggregate,
    "U22": _named,
    "E1": _function,
    "E2": _function,
}
