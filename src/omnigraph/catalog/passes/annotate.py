"""Pass A: the content and the place of annotations.

`@key`, `@unique` and `@index` without parentheses are constraints in another spelling; the correct
ones are passed on to pass C. Unknown annotations are kept.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from omnigraph.catalog.passes.declare import COLUMN_LISTS, column_list
from omnigraph.catalog.passes.draft import DraftConstraint, DraftProperty, DraftType, Findings
from omnigraph.catalog.rules import SchemaRule
from omnigraph.lang.schema import ast
from omnigraph.lang.syntax import close_match

PROPERTY_ONLY: Final = frozenset({*COLUMN_LISTS, "embed", "default"})


def annotation_text(annotation: ast.Annotation) -> str | None:
    """The value as the catalog stores it: a name, or the text of a literal."""
    return None if annotation.value is None else annotation.value.text


def check_annotations(draft: DraftType, findings: Findings) -> tuple[DraftConstraint, ...]:
    """Check the header and every property; return the constraints written as annotations."""
    _check_header(draft, findings)
    constraints: list[DraftConstraint] = []
    for each in draft.properties:
        _check_texts(each.written.annotations, each.place, findings)
        _check_on_property(each, draft, findings)
        constraints.extend(_column_marks(each, draft, findings))
    return tuple(constraints)


def _check_header(draft: DraftType, findings: Findings) -> None:
    place = f"{draft.kind} {draft.name.text}"
    for annotation in draft.written.annotations:
        if annotation.name in PROPERTY_ONLY:
            findings.add(
                SchemaRule.A1,
                f"@{annotation.name} stands in the header of {place}",
                annotation.span,
                hint="it belongs to a property",
            )
    _check_texts(draft.written.annotations, place, findings)


def _check_texts(annotations: Sequence[ast.Annotation], place: str, findings: Findings) -> None:
    """The rules that hold on headers and on properties alike."""
    for name in ("description", "instruction"):
        for annotation in _repeats(annotations, name):
            findings.add(SchemaRule.A3, f"@{name} of {place} is repeated", annotation.span)
    for annotation in _repeats(annotations, "rename_from"):
        findings.add(SchemaRule.A15, f"@rename_from of {place} is repeated", annotation.span)
    for annotation in annotations:
        blank = not (annotation_text(annotation) or "").strip()
        match annotation.name:
            case "description" | "instruction" if blank:
                findings.add(
                    SchemaRule.A2, f"@{annotation.name} of {place} has no text", annotation.span
                )
            case "rename_from" if blank or annotation.keywords:
                findings.add(
                    SchemaRule.A16,
                    f"@rename_from of {place} takes the old name and nothing else",
                    annotation.span,
                    hint='for example @rename_from("OldName")',
                )
            case _:
                pass
        keywords = Counter(name for name, _ in annotation.keywords)
        for name, count in keywords.items():
            if count > 1:
                findings.add(
                    SchemaRule.A14,
                    f"@{annotation.name} of {place} has the keyword '{name}' {count} times",
                    annotation.span,
                )


def _check_on_property(property_: DraftProperty, draft: DraftType, findings: Findings) -> None:
    annotations = property_.written.annotations
    for annotation in annotations:
        if annotation.name == "instruction":
            findings.add(
                SchemaRule.A4,
                f"@instruction stands on the property {property_.place}",
                annotation.span,
                hint="it belongs in the header of a node or an edge; here, write @description",
            )
    embeds = [each for each in annotations if each.name == "embed"]
    for annotation in embeds[1:]:
        findings.add(SchemaRule.A10, f"@embed of {property_.place} is repeated", annotation.span)
    for annotation in embeds[:1]:
        if _may_stand(annotation, property_, draft, findings):
            _check_embed(annotation, property_, draft, findings)


def _column_marks(
    property_: DraftProperty, draft: DraftType, findings: Findings
) -> Iterable[DraftConstraint]:
    annotations = property_.written.annotations
    for name in COLUMN_LISTS:
        for annotation in _repeats(annotations, name):
            findings.add(
                SchemaRule.A9, f"@{name} of {property_.place} is repeated", annotation.span
            )
        first = next((each for each in annotations if each.name == name), None)
        if first is not None and _may_stand(first, property_, draft, findings):
            yield column_list(name, (ast.Name(property_.name, first.span),), first.span)


def _may_stand(
    annotation: ast.Annotation, property_: DraftProperty, draft: DraftType, findings: Findings
) -> bool:
    """May `@key`, `@unique`, `@index` or `@embed` stand on a property of this type?"""
    name, value_type = annotation.name, property_.type
    if draft.kind == "edge" and name in {"key", "embed"}:
        rule, thing = SchemaRule.A8, "a property of an edge"
    elif value_type.is_list:
        rule, thing = SchemaRule.A5, "a list"
    elif value_type.is_vector and name in {"key", "unique"}:
        rule, thing = SchemaRule.A6, "a vector"
    elif value_type.is_blob:
        rule, thing = SchemaRule.A7, "a Blob"
    else:
        return True
    message = f"@{name} cannot stand on {property_.place}, which is {thing}"
    findings.add(rule, message, annotation.span)
    return False


def _check_embed(
    annotation: ast.Annotation, property_: DraftProperty, draft: DraftType, findings: Findings
) -> None:
    if not property_.type.is_vector:
        findings.add(
            SchemaRule.A11,
            f"@embed stands on {property_.place}, which is {property_.type} and not a vector",
            annotation.span,
        )
    for keyword, _ in annotation.keywords:
        if keyword != "model":
            findings.add(
                SchemaRule.A13,
                f"@embed of {property_.place} has no keyword '{keyword}'",
                annotation.span,
                hint='it knows model="…" only',
            )
    source = annotation_text(annotation) or ""
    hint = None
    if not source.strip():
        reason, hint = "does not name its source", "for example @embed(title)"
    elif (found := draft.find(source)) is None:
        reason = f"names '{source}', which {draft.kind} {draft.name.text} does not have"
        hint = close_match(source, draft.property_names)
    elif not found.type.is_string:
        reason = f"names {found.place}, which is {found.type} and not String"
    else:
        return
    findings.add(
        SchemaRule.A12, f"@embed of {property_.place} {reason}", annotation.span, hint=hint
    )


def _repeats(annotations: Sequence[ast.Annotation], name: str) -> list[ast.Annotation]:
    """All but the first of that name."""
    return [each for each in annotations if each.name == name][1:]
