"""`omnigraph completion`: the script that teaches a shell to complete our command lines."""

from enum import StrEnum
from typing import Annotated, Final

import typer

from omnigraph.cli.render import print_line
from omnigraph.errors import UsageError


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


BASH: Final = r"""_omnigraph() {
    local candidate
    COMPREPLY=()
    while IFS= read -r candidate; do
        [[ $candidate == */ || $candidate == *= ]] || candidate+=" "
        COMPREPLY+=("$candidate")
    done < <(omnigraph completion --words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -o nospace -F _omnigraph omnigraph"""

ZSH: Final = r"""#compdef omnigraph
_omnigraph() {
    local -a candidates folders
    candidates=("${(@f)$(omnigraph completion --words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    candidates=(${candidates:#})
    if (( ! $#candidates )); then
        _files
        return
    fi
    folders=(${(M)candidates:#*/})
    candidates=(${candidates:#*/})
    compadd -- $candidates
    compadd -S '' -- $folders
}
compdef _omnigraph omnigraph"""

FISH: Final = r"""function __omnigraph_candidates
    set -l words (commandline -opc) (commandline -ct)
    omnigraph completion --words -- $words[2..-1] 2>/dev/null
end
complete -c omnigraph -a '(__omnigraph_candidates)'"""

SCRIPTS: Final = {Shell.BASH: BASH, Shell.ZSH: ZSH, Shell.FISH: FISH}


def completion(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")
    ] = None,
    *,
    is_asked: Annotated[
        bool, typer.Option("--words", hidden=True, help="Complete the last of these words.")
    ] = False,
) -> None:
    """Print a script that completes commands, flags, graphs and branches.

    In ~/.bashrc or ~/.zshrc: `source <(omnigraph completion bash)`, with zsh instead of bash there.
    For fish: `omnigraph completion fish > ~/.config/fish/completions/omnigraph.fish`.
    """
    given = words or []
    if is_asked:
        from typer.main import get_command

        from omnigraph.cli.app import app
        from omnigraph.cli.completion import find_candidates

        for each in find_candidates(get_command(app), given[:-1], given[-1] if given else ""):
            print_line(each)
        return
    if len(given) != 1 or given[0] not in set(Shell):
        raise UsageError(f"name a shell: {', '.join(Shell)}")
    print_line(SCRIPTS[Shell(given[0])])
