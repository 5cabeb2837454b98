"""Recipes of an embedded graph: planned, or followed as one load."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from omnigraph.engine.graph import Graph
from omnigraph.engine.load.recipe_plan import RecipePlan
from omnigraph.engine.load.run import LoadRequest, LoadResult
from omnigraph.errors import AlreadyDone, UsageError
from omnigraph.ids import CommitId, parse_branch
from omnigraph.pipeline.settings import SparkSettings
from omnigraph.sdk.embedded.rejecting import rejecting
from omnigraph.storage.bucket_options import expand_variables, overlay_options

if TYPE_CHECKING:
    from omnigraph.commit.manifest.records import Commit
    from omnigraph.engine.write.idempotency import IdempotencyKey
    from omnigraph.pipeline.recipes.recipe import Recipe
    from omnigraph.pipeline.recipes.resolve import PreparedRecipe
    from omnigraph.pipeline.recipes.since import Remembered


@dataclass(frozen=True, slots=True)
class Overrides:
    """What a caller wants otherwise than the recipe says."""

    branch: str | None = None
    from_branch: str | None = None
    errors_max: int | None = None
    rejects: str | Path | None = None
    engine: str | None = None
    """`auto`, `spark` or `local`."""
    spark: SparkSettings | None = None
    """Where to compute, if not where the environment says."""
    message: str | None = None
    """Why; kept in the commit."""
    idempotency_key: str | None = None
    """A second run with this key returns the result of the first."""
    is_full: bool = False
    """Load all of the inputs with `since: last`, and remember it."""


RUNS_MAX: Final = 5
"""How often another run of the same pipeline may come first."""


def plan(graph: Graph, path: str | Path, spark: SparkSettings | None) -> RecipePlan:
    """Raises FileUnreadable, RecipeInvalid, and what starting Spark raises."""
    recipe = _read(path)
    prepared = _prepare(graph, recipe, spark, _find_runs(graph, recipe, Overrides()))
    return RecipePlan(
        path=recipe.path,
        mode=recipe.mode,
        branch=recipe.branch,
        from_branch=recipe.from_branch,
        inputs=prepared.planned,
    )


def run(graph: Graph, path: str | Path, actor: str | None, overrides: Overrides) -> LoadResult:
    """Raises what planning and loading raise."""
    recipe = _read(path)
    for attempts_left in reversed(range(RUNS_MAX)):
        runs = _find_runs(graph, recipe, overrides)
        try:
            return _run(graph, recipe, actor, overrides, runs)
        except AlreadyDone:
            # Another run of the pipeline came first, and this one is to load the rest.
            if not runs.is_followed or not attempts_left:
                raise
    raise AssertionError("the last round returns or raises")


def _run(
    graph: Graph, recipe: "Recipe", actor: str | None, overrides: Overrides, runs: "_Runs"
) -> LoadResult:
    from omnigraph.commit.manifest.records import PipelineRun
    from omnigraph.pipeline.load import open_bulk, parse_engine

    prepared = _prepare(graph, recipe, overrides.spark, runs)
    base = overrides.from_branch or recipe.from_branch
    engine = overrides.engine or recipe.engine
    branch = parse_branch(overrides.branch or recipe.branch)
    onto = None if base is None else parse_branch(base)
    if runs.is_followed and not prepared.inputs:
        return LoadResult(graph.uri, branch, onto, False, recipe.mode, {}, actor, None)
    order = LoadRequest(
        sources=prepared.inputs,
        mode=recipe.mode,
        branch=branch,
        actor=actor,
        errors_max=overrides.errors_max or recipe.errors_max,
        message=overrides.message,
        idempotency=_find_key(recipe, overrides),
        engine=None if engine is None else parse_engine(engine),
        input_options=_input_options(graph, recipe),
        pipeline=PipelineRun(recipe.name, runs.last, prepared.records)
        if runs.is_followed and recipe.name is not None
        else None,
    )
    with rejecting(overrides.rejects) as told:
        return graph.load(
            replace(order, rejects=told), open_bulk(overrides.spark), from_branch=onto
        )


def _find_key(recipe: "Recipe", overrides: Overrides) -> "IdempotencyKey | None":
    """The key for what the recipe asks for: the content of its files, and how they are read."""
    from omnigraph.engine.write.idempotency import parse_key_of_files

    files = [file for each in recipe.inputs for file in each.data]
    shapes: list[tuple[object, ...]] = [
        (each.type, each.edge, dict(each.columns), each.where, each.delimiter, each.null)
        + ((each.spark_format or each.format, dict(each.options)) if each.options else ())
        + each.dialect
        for each in recipe.inputs
    ]
    branch = overrides.branch or recipe.branch
    base = overrides.from_branch or recipe.from_branch
    return parse_key_of_files(
        overrides.idempotency_key, files, shapes, recipe.mode.value, branch, base
    )


@dataclass(frozen=True, slots=True)
class _Runs:
    """The runs of a pipeline that a branch shows."""

    is_followed: bool
    """Has the pipeline an input with `since: last`?"""
    known: "tuple[Commit, ...]" = ()
    is_full: bool = False

    @property
    def last(self) -> CommitId | None:
        return self.known[-1].id if self.known else None

    def recall(self) -> "dict[str, Remembered]":
        from omnigraph.pipeline.recipes.since import recall

        if self.is_full:
            return {}
        runs = (each.extension.pipeline for each in self.known)
        return recall(each for each in runs if each is not None)


def _find_runs(graph: Graph, recipe: "Recipe", overrides: Overrides) -> _Runs:
    """Raises BranchNotFound, UsageError."""
    if recipe.name is None or not any(each.is_incremental for each in recipe.inputs):
        return _Runs(is_followed=False)
    if overrides.idempotency_key is not None:
        raise UsageError(
            "a pipeline with `since: last` never loads twice: run it again without a key"
        )
    branch = parse_branch(overrides.branch or recipe.branch)
    base = overrides.from_branch or recipe.from_branch
    if base is not None and not graph.has_branch(branch):
        branch = parse_branch(base)
    known = graph.pipeline_runs(recipe.name, branch)
    return _Runs(is_followed=True, known=tuple(known), is_full=overrides.is_full)


def _read(path: str | Path) -> "Recipe":
    from omnigraph.pipeline.recipes.recipe import read_recipe

    return read_recipe(path)


def _prepare(
    graph: Graph, recipe: "Recipe", spark: SparkSettings | None, runs: _Runs
) -> "PreparedRecipe":
    from omnigraph.pipeline.recipes.resolve import open_session, prepare

    options = _input_options(graph, recipe)
    return prepare(recipe, graph.catalog, options, lambda: open_session(spark), runs.recall())


def _input_options(graph: Graph, recipe: "Recipe") -> dict[str, str]:
    """Raises ConfigInvalid."""
    return overlay_options(graph.settings.storage_options, expand_variables(recipe.storage_options))
