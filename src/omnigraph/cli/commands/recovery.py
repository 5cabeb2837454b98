"""`omnigraph recovery`: unfinished writes, and recoveries of the past."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from omnigraph.cli.graphs import open_graph
from omnigraph.cli.options import GraphUri, Json
from omnigraph.cli.render import print_json, print_line
from omnigraph.errors import OperationNotFound

app = typer.Typer(help="List unfinished writes and their recoveries.", no_args_is_help=True)


@app.command("list")
def list_(
    context: typer.Context,
    uri: GraphUri = None,
    *,
    as_json: Json = False,
) -> None:
    """List pending writes, then past recoveries, newest first.

    Neither needs an action: the next writer rolls a pending write forward or back, unless its
    sidecar cannot be read.
    """
    from omnigraph.sdk.upkeep_documents import pending_document, recovery_document

    graph = open_graph(uri, context.obj, read_only=True)
    pending, past = graph.pending_writes(), graph.recoveries()
    if as_json:
        print_json(
            {
                "pending": [pending_document(each) for each in pending],
                "recoveries": [recovery_document(each) for each in past],
            }
        )
        return
    for each in pending:
        if each.problem is not None:
            print_line(f"{each.operation_id} {each.state.value}: {each.problem}")
            continue
        state = "under way" if each.is_alive else "waiting to be resolved"
        print_line(f"{each.operation_id} {each.kind} branch={each.branch} {state}")
    for done in past:
        when = datetime.fromtimestamp(done.created_at_us / 1e6, UTC).isoformat()
        print_line(f"{done.operation_id} {done.writer} {done.kind.value} at {when}")
    if not pending and not past:
        print_line("no write ever failed to finish")


@app.command()
def show(
    context: typer.Context,
    operation_id: Annotated[str, typer.Argument(metavar="ID", help="The operation, by its id.")],
    uri: GraphUri = None,
    *,
    as_json: Json = False,
) -> None:
    """Show all facts about one operation."""
    from omnigraph.sdk.upkeep_documents import pending_document, recovery_document

    graph = open_graph(uri, context.obj, read_only=True)
    documents = [pending_document(each) for each in graph.pending_writes()]
    documents += [recovery_document(each) for each in graph.recoveries()]
    found = next((each for each in documents if each["operation_id"] == operation_id), None)
    if found is None:
        raise OperationNotFound(operation_id)
    if as_json:
        print_json(found)
    else:
        for key, value in found.items():
            print_line(f"{key}: {value}")
