"""Recipes of an embedded graph: planned, or followed as one load."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.engine.graph import Graph
from omnigraph.engine.load.recipe_plan import RecipePlan
from omnigraph.engine.load.run import LoadRequest, LoadResult
from omnigraph.ids import parse_branch
from omnigraph.pipeline.settings import SparkSettings
from omnigraph.sdk.embedded.rejecting import rejecting

if TYPE_CHECKING:
    from omnigraph.pipeline.recipes.recipe import Recipe
    from omnigraph.pipeline.recipes.resolve import PreparedRecipe


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


def plan(graph: Graph, path: str | Path, spark: SparkSettings | None) -> RecipePlan:
    """Raises FileUnreadable, RecipeInvalid, and what starting Spark raises."""
    recipe, prepared = _prepare(graph, path, spark)
    return RecipePlan(
        path=recipe.path,
        mode=recipe.mode,
        branch=recipe.branch,
        from_branch=recipe.from_branch,
        inputs=prepared.planned,
    )


def run(graph: Graph, path: str | Path, actor: str | None, overrides: Overrides) -> LoadResult:
    """Raises what planning and loading raise."""
    from omnigraph.pipeline.load import open_bulk, parse_engine  # noqa: PLC0415 - for loads only

    recipe, prepared = _prepare(graph, path, overrides.spark)
    base = overrides.from_branch or recipe.from_branch
    engine = overrides.engine or recipe.engine
    order = LoadRequest(
        sources=prepared.inputs,
        mode=recipe.mode,
        branch=parse_branch(overrides.branch or recipe.branch),
        actor=actor,
        errors_max=overrides.errors_max or recipe.errors_max,
        engine=None if engine is None else parse_engine(engine),
    )
    onto = None if base is None else parse_branch(base)
    with rejecting(overrides.rejects) as told:
        return graph.load(
            replace(order, rejects=told), open_bulk(overrides.spark), from_branch=onto
        )


def _prepare(
    graph: Graph, path: str | Path, spark: SparkSettings | None
) -> "tuple[Recipe, PreparedRecipe]":
    from omnigraph.pipeline.recipes.recipe import read_recipe  # noqa: PLC0415 - for recipes only
    from omnigraph.pipeline.recipes.resolve import open_session, prepare  # noqa: PLC0415

    recipe = read_recipe(path)
    options = graph.settings.storage_options
    return recipe, prepare(recipe, graph.catalog, options, lambda: open_session(spark))
