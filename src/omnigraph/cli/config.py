"""The operator's configuration: `~/.omnigraph/config.yaml`, or `$OMNIGRAPH_HOME/config.yaml`.

A missing file means no settings. An unknown key is named in a warning, because a misspelt key would
otherwise have no effect without notice.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from omnigraph.cli.render import print_note
from omnigraph.cli.tables import WIDTH_MIN, RowFormat, TableLayout
from omnigraph.errors import ConfigInvalid
from omnigraph.pipeline.settings import LOCAL, SparkSettings

HOME: Final = "OMNIGRAPH_HOME"
PROFILE: Final = "OMNIGRAPH_PROFILE"

_KNOWN: Final = ("operator", "servers", "clusters", "defaults", "profiles", "aliases", "spark")
_SCOPE: Final = ("store", "server", "default_graph", "storage_options")
_LAYOUTS: Final = ("truncate", "wrap")


@dataclass(frozen=True, slots=True)
class AddressDefaults:
    """The place of a graph if the command line names none: one of these, or none."""

    store: str | None = None
    server: str | None = None
    cluster: str | None = None
    default_graph: str | None = None
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """How the store is reached; `$NAME` stands for a variable."""


@dataclass(frozen=True, slots=True)
class Alias:
    """A stored query under a name that the user chose."""

    server: str
    query: str
    graph: str | None = None
    args: tuple[str, ...] = ()
    params: Mapping[str, object] = field(default_factory=dict)
    format: RowFormat | None = None


@dataclass(frozen=True, slots=True)
class Config:
    actor: str | None = None
    defaults: AddressDefaults = field(default_factory=AddressDefaults)
    profiles: Mapping[str, AddressDefaults] = field(default_factory=dict)
    spark: SparkSettings = field(default_factory=SparkSettings)
    servers: Mapping[str, str] = field(default_factory=dict)
    """URLs of servers, by name."""
    clusters: Mapping[str, str] = field(default_factory=dict)
    """Roots of clusters, by name."""
    aliases: Mapping[str, Alias] = field(default_factory=dict)
    format: RowFormat | None = None
    """The format of rows if no flag names one."""
    layout: TableLayout = field(default_factory=TableLayout)


def config_path() -> Path:
    home = os.environ.get(HOME)
    return (Path(home).expanduser() if home else Path.home() / ".omnigraph") / "config.yaml"


def read_config() -> Config:
    """Raises ConfigInvalid."""
    path = config_path()
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Config()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid(str(path), reason=str(error)) from error
    from yaml import YAMLError

    from omnigraph.yamltext import read_yaml

    try:
        document = read_yaml(text)
    except YAMLError as error:
        raise ConfigInvalid(str(path), reason=f"it is not YAML: {error}") from error
    return _read_document({} if document is None else document, path)


def _read_document(document: object, path: Path) -> Config:
    sections = _section(document, "the file", path, _KNOWN)
    operator = _section(sections.get("operator") or {}, "operator", path, ("actor",))
    profiles = _mapping(sections.get("profiles") or {}, "profiles", path)
    servers = _mapping(sections.get("servers") or {}, "servers", path)
    clusters = _mapping(sections.get("clusters") or {}, "clusters", path)
    aliases = _mapping(sections.get("aliases") or {}, "aliases", path)
    defaults = _section(
        sections.get("defaults") or {},
        "defaults",
        path,
        (*_SCOPE, "output", "table_max_column_width", "table_cell_layout"),
    )
    if defaults.get("server") is not None and defaults.get("store") is not None:
        raise ConfigInvalid(str(path), reason="defaults: name a server or a store, not both")
    return Config(
        actor=_text(operator.get("actor"), "operator.actor", path),
        defaults=_scope(defaults, "defaults", path),
        profiles={
            str(name): _profile(found, f"profiles.{name}", path) for name, found in profiles.items()
        },
        spark=_spark(sections.get("spark") or {}, path),
        servers={
            str(name): _server(found, f"servers.{name}", path) for name, found in servers.items()
        },
        clusters={
            str(name): _cluster(found, f"clusters.{name}", path) for name, found in clusters.items()
        },
        format=_format(defaults.get("output"), "defaults.output", path),
        layout=_layout(defaults, path),
        aliases={
            str(name): _alias(found, f"aliases.{name}", path) for name, found in aliases.items()
        },
    )


def _server(found: object, where: str, path: Path) -> str:
    url = _text(_section(found, where, path, ("url",)).get("url"), f"{where}.url", path)
    if url is None or not url.startswith(("http://", "https://")):
        raise ConfigInvalid(str(path), reason=f"{where} needs a url of http:// or https://")
    return url.rstrip("/")


def _cluster(found: object, where: str, path: Path) -> str:
    root = _text(_section(found, where, path, ("root",)).get("root"), f"{where}.root", path)
    if root is None:
        raise ConfigInvalid(str(path), reason=f"{where} needs a root")
    return root


def _format(found: object, where: str, path: Path) -> RowFormat | None:
    text = _text(found, where, path)
    if text is not None and text not in set(RowFormat):
        raise ConfigInvalid(
            str(path), reason=f"{where}: '{text}' is none of {', '.join(RowFormat)}"
        )
    return None if text is None else RowFormat(text)


def _layout(defaults: Mapping[str, object], path: Path) -> TableLayout:
    width = defaults.get("table_max_column_width", TableLayout().width_max)
    if not isinstance(width, int) or isinstance(width, bool):
        reason = f"defaults.table_max_column_width must be a number, not {width!r}"
        raise ConfigInvalid(str(path), reason=reason)
    name = _text(defaults.get("table_cell_layout"), "defaults.table_cell_layout", path)
    if name not in (None, *_LAYOUTS):
        reason = f"defaults.table_cell_layout is {' or '.join(_LAYOUTS)}, not '{name}'"
        raise ConfigInvalid(str(path), reason=reason)
    return TableLayout(max(width, WIDTH_MIN), is_wrapped=name == "wrap")


def _alias(found: object, where: str, path: Path) -> Alias:
    known = ("server", "graph", "query", "args", "params", "format")
    section = _section(found, where, path, known)
    server = _text(section.get("server"), f"{where}.server", path)
    query = _text(section.get("query"), f"{where}.query", path)
    if server is None or query is None:
        raise ConfigInvalid(str(path), reason=f"{where} needs a server and a query")
    args = section.get("args") or []
    if not isinstance(args, list) or not all(isinstance(each, str) for each in args):
        raise ConfigInvalid(str(path), reason=f"{where}.args must be a list of names")
    return Alias(
        server,
        query,
        _text(section.get("graph"), f"{where}.graph", path),
        tuple(args),
        _mapping(section.get("params") or {}, f"{where}.params", path),
        _format(section.get("format"), f"{where}.format", path),
    )


def _spark(found: object, path: Path) -> SparkSettings:
    known = ("master", "remote", "scratch", "concurrency", "configuration")
    section = _section(found, "spark", path, known)
    concurrency = section.get("concurrency")
    if concurrency is not None and (
        isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1
    ):
        raise ConfigInvalid(str(path), reason="spark.concurrency must be a positive number")
    settings = _mapping(section.get("configuration") or {}, "spark.configuration", path)
    return SparkSettings(
        master=_text(section.get("master"), "spark.master", path) or LOCAL,
        remote=_text(section.get("remote"), "spark.remote", path),
        scratch=_text(section.get("scratch"), "spark.scratch", path),
        concurrency=concurrency,
        configuration={str(name): _setting(value) for name, value in settings.items()},
    )


def _setting(value: object) -> str:
    """As Spark spells it: `true`, where Python would print `True`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _profile(found: object, where: str, path: Path) -> AddressDefaults:
    section = _section(found or {}, where, path, (*_SCOPE, "cluster"))
    scope = _scope(section, where, path)
    if [scope.store, scope.server, scope.cluster].count(None) != 2:
        raise ConfigInvalid(str(path), reason=f"{where} needs one of store, server and cluster")
    return scope


def _scope(section: Mapping[str, object], where: str, path: Path) -> AddressDefaults:
    scope = AddressDefaults(
        **{
            name: _text(section.get(name), f"{where}.{name}", path)
            for name in ("store", "server", "cluster", "default_graph")
        },
        storage_options=_options(section.get("storage_options"), where, path),
    )
    if scope.storage_options and scope.store is None:
        raise ConfigInvalid(str(path), reason=f"{where}: storage_options need a store")
    if scope.store is not None and scope.default_graph is not None:
        raise ConfigInvalid(str(path), reason=f"{where}: a store is one graph; drop default_graph")
    return scope


def _options(found: object, where: str, path: Path) -> dict[str, str]:
    if found is None:
        return {}
    from omnigraph.storage.bucket_options import options_of_document

    return options_of_document(found, f"{path}: {where}")


def _section(found: object, where: str, path: Path, known: tuple[str, ...]) -> Mapping[str, object]:
    """A mapping of known keys. A warning names each unknown key once."""
    section = _mapping(found, where, path)
    for key in section:
        name = f"{path}: unknown key '{key if where == 'the file' else f'{where}.{key}'}'"
        if key not in known and name not in _named:
            _named.add(name)
            print_note(f"warning: {name}")
    return section


_named: Final[set[str]] = set()
"""The warnings that were printed: a command reads the file more than once."""


def _mapping(found: object, where: str, path: Path) -> Mapping[str, object]:
    if not isinstance(found, dict):
        raise ConfigInvalid(str(path), reason=f"{where} must be a mapping")
    return found


def _text(found: object, where: str, path: Path) -> str | None:
    if found is None or isinstance(found, str):
        return found
    raise ConfigInvalid(str(path), reason=f"{where} must be text, not {found!r}")
