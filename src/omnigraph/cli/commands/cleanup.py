"""`omnigraph cleanup`: remove versions that no branch and no retained commit needs."""

import re
from typing import Annotated, Final

import typer

from omnigraph.cli.address import find_actor
from omnigraph.cli.globals import Globals
from omnigraph.cli.graphs import confirm_destructive, open_graph
from omnigraph.cli.options import GraphUri, Json
from omnigraph.cli.progress import ShowProgress, showing
from omnigraph.cli.render import print_json, print_line, print_note, print_target
from omnigraph.errors import UsageError
from omnigraph.errors.base import counted

_UNITS_S: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def cleanup(
    context: typer.Context,
    uri: GraphUri = None,
    *,
    keep: Annotated[
        int | None, typer.Option(min=1, help="How many commits of each branch to keep.")
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(help="Keep younger commits: 30m, 12h, 7d, 2w; a bare number is seconds."),
    ] = None,
    confirm: Annotated[
        bool,
        typer.Option("--confirm", help="Remove. Without it, only print what would be removed."),
    ] = False,
    progress: ShowProgress = None,
    as_json: Json = False,
) -> None:
    """Free the space of old versions, unused forks, and files of writers that died.

    Versions that a branch, a possible merge or a write under way needs always stay.
    """
    from omnigraph.sdk.upkeep_documents import cleanup_document

    settings: Globals = context.obj
    if keep is None and older_than is None:
        raise UsageError("say what to keep: --keep N, --older-than AGE, or both")
    age_s = None if older_than is None else _read_age(older_than)
    graph = open_graph(uri, settings, read_only=not confirm)
    if confirm:
        confirm_destructive("clean up", graph.uri, settings, interactive=not as_json)
        print_target("cleanup", graph.uri, settings)
    else:
        kept = " and ".join(
            [f"the newest {counted(keep or 0, 'commit')}"] * (keep is not None)
            + [f"what is younger than {older_than}"] * (older_than is not None)
        )
        print_note(f"would keep {kept}; say --confirm to remove the rest")
    with showing(settings, wanted=progress):
        result = graph.cleanup(
            keep=keep, older_than_s=age_s, confirm=confirm, actor=find_actor(settings)
        )
    if as_json:
        print_json(cleanup_document(graph.uri, result))
        return
    for each in result.tables:
        versions = counted(each.versions_removed, "version")
        outcome = each.error or f"{versions}, {counted(each.bytes_removed, 'byte')}"
        print_line(f"{each.key} on {each.branch}: {outcome}")
    for fork in result.forks:
        print_line(f"fork {fork}")
    residue, total = counted(result.residue_bytes, "byte"), counted(result.bytes_removed, "byte")
    print_line(f"{residue} of residue, {total} in all")


def _read_age(text: str) -> int:
    """Raises UsageError."""
    from omnigraph.sdk.embedded.upkeep import AGE_S_MAX

    found = re.fullmatch(r"([0-9]{1,12})([smhdw]?)", text.strip())
    age_s = None if found is None else int(found[1]) * _UNITS_S[found[2]]
    if age_s is None or age_s > AGE_S_MAX:
        raise UsageError(
            f"'{text}' is no age; write 45s, 30m, 12h, 7d or 2w, and no more than a hundred years"
        )
    return age_s
