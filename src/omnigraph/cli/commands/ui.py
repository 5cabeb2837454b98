"""`omnigraph ui`: the web page of a local graph, in the browser of this machine."""

import threading
import webbrowser
from typing import Annotated

import typer

from omnigraph.cli.address import find_storage_options, find_store
from omnigraph.cli.options import GraphUri
from omnigraph.cli.render import print_note


def ui(
    context: typer.Context,
    uri: GraphUri = None,
    *,
    bind: Annotated[
        str, typer.Option(help="ADDRESS:PORT; any free port of this machine by default.")
    ] = "127.0.0.1:0",
    browser: Annotated[
        bool, typer.Option(help="Open the page in a browser; --no-browser only serves it.")
    ] = True,
) -> None:
    """Serve a graph to this machine and open its page, until Ctrl-C.

    The server takes no tokens: every program of this machine may use it while it runs.
    """
    from omnigraph.server.process.run import announce, answer_from, listen
    from omnigraph.server.runtime.settings import Flags, make_graph_id
    from omnigraph.server.runtime.state import ServerRuntime
    from omnigraph.server.telemetry.logs import start_logging

    place = find_store(uri, context.obj)
    start_logging()
    flags = Flags(
        graphs=(f"{make_graph_id(place)}={place}",),
        bind=bind,
        unauthenticated=True,
        require_all_graphs=True,
        storage_options=find_storage_options(uri, context.obj),
    )
    runtime = ServerRuntime(flags, {})
    with listen(runtime.current.settings.bind) as listening:
        announce(listening)
        host, port = listening.getsockname()[:2]
        address = f"http://{host}:{port}/ui/"
        print_note(f"the page is at {address}; Ctrl-C ends it")
        if browser:
            # The kernel already queues connections, so the browser may ask at once.
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        answer_from(runtime, listening)
