"""`omnigraph describe`: the schema of a graph in few words."""

from typing import Annotated

import typer

from omnigraph.cli.graphs import open_client
from omnigraph.cli.options import GraphUri, Json
from omnigraph.cli.render import print_json, print_line


def describe(
    context: typer.Context,
    uri: GraphUri = None,
    *,
    types: Annotated[
        list[str] | None, typer.Option("--type", help="Only this type. Repeatable.")
    ] = None,
    question: Annotated[
        str | None,
        typer.Option("--for", help="A question: only what its words touch, and what joins it."),
    ] = None,
    budget: Annotated[
        int | None, typer.Option(help="At most about so many tokens: details go, then types.")
    ] = None,
    samples: Annotated[int, typer.Option(help="Show so many values of each property.")] = 0,
    as_json: Json = False,
) -> None:
    """Show the schema in few words, one line for each type; the text is a schema again.

    Meant for the prompt of a language model: choose types, or let the words of a question choose.
    """
    from omnigraph.sdk.describing import outline_document

    graph = open_client(uri, context.obj, read_only=True)
    outline = graph.describe(types=types or (), question=question, budget=budget, samples=samples)
    if as_json:
        print_json(outline_document(outline))
        return
    print_line(outline.text)
    if outline.omitted:
        print_line(f"// left out to fit the budget: {', '.join(outline.omitted)}")
