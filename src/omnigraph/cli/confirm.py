"""Asking before something is destroyed that is not on this machine's own disk."""

import sys

import typer

from omnigraph.cli.globals import Globals
from omnigraph.errors import NotConfirmed


def confirm_destructive(action: str, store: str, settings: Globals, *, interactive: bool) -> None:
    """Ask, unless the graph is local or the flag answered already. Raises NotConfirmed."""
    from omnigraph.storage.layout import parse_root

    is_served = store.startswith(("http://", "https://"))
    if settings.yes or (not is_served and parse_root(store).is_local):
        return
    if interactive and sys.stdin.isatty() and typer.confirm(f"{action} {store}?", err=True):
        return
    raise NotConfirmed(action, target=store)
