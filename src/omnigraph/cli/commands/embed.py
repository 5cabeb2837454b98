"""`omnigraph embed`: add vectors to a file of records before it is loaded."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
import yaml

from omnigraph.cli.inputs import read_source, write_whole
from omnigraph.cli.options import Json
from omnigraph.cli.render import print_json, print_line, print_note
from omnigraph.errors import ConfigInvalid, FileUnreadable, UsageError
from omnigraph.errors.base import counted
from omnigraph.jsontext import read_json
from omnigraph.yamltext import read_yaml

if TYPE_CHECKING:
    from omnigraph.embed.record_file import EmbedCounts, EmbedMode, EmbedRecipes, RecordSelection

PROGRESS_EVERY = 100
OUTPUT_DEFAULT = Path("build/seed.embedded.jsonl")


@dataclass(frozen=True, slots=True)
class EmbedJob:
    """The input, the output and the recipes of one run."""

    source: Path
    target: Path
    recipes: "EmbedRecipes"


def embed(
    *,
    seed: Annotated[
        Path | None,
        typer.Option(help="A YAML file that names the input, the output and the fields."),
    ] = None,
    source: Annotated[Path | None, typer.Option("--input", help="The records, JSONL.")] = None,
    target: Annotated[Path | None, typer.Option("--output", help="The file to write.")] = None,
    spec: Annotated[
        Path | None, typer.Option(help="A JSON file: `dimension`, and by type target and fields.")
    ] = None,
    reembed_all: Annotated[
        bool,
        typer.Option("--reembed-all", "--reembed_all", help="Also records that have a vector."),
    ] = False,
    clean: Annotated[bool, typer.Option("--clean", help="Remove the vectors instead.")] = False,
    types: Annotated[
        list[str] | None, typer.Option("--type", help="Only records of this type. Repeatable.")
    ] = None,
    select: Annotated[
        list[str] | None,
        typer.Option(help="Embed again records that match any [Type:]field=value. Repeatable."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Copy a file of records and add vectors.

    By default, only records without a vector get one. The environment names the provider. The new
    file appears when it is complete.
    """
    from omnigraph.embed.embedder import Embedder
    from omnigraph.embed.providers import Purpose
    from omnigraph.embed.record_file import EmbedCounts, EmbedRun
    from omnigraph.embed.settings import read_settings

    job = _read_job(seed, source, target, spec)
    selection = _read_selection(types or [], select or [])
    mode = _mode(selection, reembed_all=reembed_all, clean=clean)
    embedder = Embedder(read_settings(os.environ))
    dimension = job.recipes.dimension

    def vector(text: str) -> tuple[float, ...]:
        return embedder.embed(text, dimension, purpose=Purpose.DOCUMENT)

    tally = EmbedCounts()
    embed_run = EmbedRun(job.recipes, mode, selection, vector, str(job.source))
    lines = _noting(embed_run.run(_lines(job.source), tally), tally)
    _make_folder(job.target.parent)
    write_whole(job.target, (f"{line}\n".encode() for line in lines))
    result = _document(job, tally, mode, embedder.settings.model)
    if as_json:
        print_json(result)
    else:
        print_line(
            f"{job.target}: {counted(tally.records, 'record')}, {tally.selected} selected, "
            f"{tally.embedded} embedded, {tally.cleaned} cleaned"
        )


def _document(
    job: EmbedJob, tally: "EmbedCounts", mode: "EmbedMode", model: str
) -> dict[str, object]:
    counts = {
        "": tally.records,
        "selected_": tally.selected,
        "embedded_": tally.embedded,
        "cleaned_": tally.cleaned,
    }
    return {
        "input": str(job.source),
        "output": str(job.target),
        **{f"{name}rows": count for name, count in counts.items()},
        **{f"{name}records": count for name, count in counts.items()},
        "mode": mode.value,
        "dimension": job.recipes.dimension,
        "model": model,
    }


# ── the request ────────────────────────────────────────────────────────────────────────────


def _read_job(
    seed: Path | None, source: Path | None, target: Path | None, spec: Path | None
) -> EmbedJob:
    from omnigraph.embed.record_file import read_recipes

    explicit = (source, target, spec)
    if seed is not None:
        if any(each is not None for each in explicit):
            raise UsageError("--seed says everything; drop --input, --output and --spec")
        return _read_seed(seed)
    if source is None or target is None or spec is None:
        raise UsageError("say --seed, or --input, --output and --spec")
    text = read_source(spec).text
    try:
        document = read_json(text)
    except ValueError as error:
        raise ConfigInvalid(str(spec), reason=f"it is not JSON: {error}") from error
    return EmbedJob(source, target, read_recipes(document, str(spec)))


def _read_seed(seed: Path) -> EmbedJob:
    from omnigraph.embed.record_file import read_recipes

    try:
        document = read_yaml(read_source(seed).text)
    except yaml.YAMLError as error:
        raise ConfigInvalid(str(seed), reason=f"it is not YAML: {error}") from error
    match document:
        case {"sources": {"raw_seed": str(source)}} | {"seed": {"data": str(source)}}:
            pass
        case _:
            raise ConfigInvalid(str(seed), reason="it names no records: sources.raw_seed")
    match document:
        case {"artifacts": {"embedded_seed": str(target)}}:
            pass
        case _:
            target = str(OUTPUT_DEFAULT)
    assert isinstance(document, dict), "it names its records"
    recipes = read_recipes(document.get("embeddings"), f"{seed}: embeddings")
    return EmbedJob(seed.parent / source, seed.parent / target, recipes)


def _read_selection(types: list[str], select: list[str]) -> "RecordSelection":
    from omnigraph.embed.record_file import RecordSelection, parse_field_match

    choices = []
    for each in select:
        choice = parse_field_match(each)
        if choice is None:
            raise UsageError(f"--select takes [Type:]field=value, not '{each}'")
        choices.append(choice)
    return RecordSelection(frozenset(types), tuple(choices))


def _mode(selection: "RecordSelection", *, reembed_all: bool, clean: bool) -> "EmbedMode":
    from omnigraph.embed.record_file import EmbedMode

    if reembed_all and clean:
        raise UsageError("--reembed-all makes vectors and --clean takes them out; choose one")
    if clean:
        return EmbedMode.CLEAN
    return EmbedMode.REEMBED_ALL if reembed_all or selection.choices else EmbedMode.FILL_MISSING


# ── files ────────────────────────────────────────────────────────────────────────────────────────


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8", newline="\n") as file:
            yield from file
    except OSError as error:
        raise FileUnreadable(str(path), reason=error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise FileUnreadable(str(path), reason=f"not UTF-8 text: {error.reason}") from error


def _noting(lines: Iterator[str], tally: "EmbedCounts") -> Iterator[str]:
    """Print a line after every `PROGRESS_EVERY` embedded records."""
    noted = 0
    for line in lines:
        if tally.embedded >= noted + PROGRESS_EVERY:
            noted = tally.embedded
            print_note(f"{noted} embedded")
        yield line


def _make_folder(path: Path) -> None:
    """Raises FileUnreadable."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileUnreadable(str(path), reason=error.strerror or str(error)) from error
