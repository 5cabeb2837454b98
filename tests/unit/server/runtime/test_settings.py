"""What a server can be told, and what it refuses to be told."""

from pathlib import Path

import pytest

from omnigraph.errors import ConfigInvalid, UsageError
from omnigraph.server.runtime.guard import AuthMode, find_auth_mode
from omnigraph.server.runtime.settings import (
    Flags,
    GraphSettings,
    check_graph_id,
    make_graph_id,
    read_settings,
)
from omnigraph.server.runtime.tokens import FILE, INLINE, SINGLE

GOOD = """
version: 1
bind: 0.0.0.0:9000
graphs:
  research: { uri: graphs/research.omni, policy: team.yaml, queries: queries }
  far: { uri: "s3://bucket/far" }
limits: { body_bytes: 2048 }
"""


def written(tmp_path: Path, text: str) -> Flags:
    (tmp_path / "server.yaml").write_text(text)
    return Flags(config=tmp_path / "server.yaml")


def test_paths_of_the_file_are_meant_from_where_it_lies(tmp_path: Path) -> None:
    settings = read_settings(written(tmp_path, GOOD), {})
    assert settings.graphs["research"] == GraphSettings(
        str(tmp_path / "graphs/research.omni"), tmp_path / "team.yaml", tmp_path / "queries"
    )
    assert settings.graphs["far"].uri == "s3://bucket/far"
    assert settings.bind == "0.0.0.0:9000"
    assert settings.limits.body_bytes == 2048


def test_flags_win_over_the_file_and_add_to_it(tmp_path: Path) -> None:
    flags = written(tmp_path, GOOD)
    settings = read_settings(
        Flags(flags.config, ("new=n.omni",), ("new=p.yaml",), bind="127.0.0.1:0"),
        {"OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX": "3", "OMNIGRAPH_UNAUTHENTICATED": "false"},
    )
    assert set(settings.graphs) == {"research", "far", "new"}
    assert settings.graphs["new"].policy == Path("p.yaml")
    assert settings.bind == "127.0.0.1:0"
    assert settings.limits.inflight_per_actor == 3
    assert not settings.unauthenticated


@pytest.mark.parametrize(
    ("line", "variable", "is_on"),
    [
        ("", None, True),
        ("group: false", None, False),
        ("group: off", None, False),
        ("group: false", "on", True),
        ("", "off", False),
    ],
)
def test_groups_are_on_unless_the_variable_or_the_file_says_otherwise(
    tmp_path: Path, line: str, variable: str | None, *, is_on: bool
) -> None:
    environment = {} if variable is None else {"OMNIGRAPH_GROUP": variable}
    settings = read_settings(written(tmp_path, f"{GOOD}{line}\n"), environment)
    assert settings.group is is_on


def test_a_variable_for_groups_that_says_neither_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="on or off"):
        read_settings(written(tmp_path, GOOD), {"OMNIGRAPH_GROUP": "maybe"})


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("graphs/research.omni", "research"),
        ("/data/art_of.v2.omni/", "art-of"),
        ("s3://bucket/far", "far"),
        ("_" + "x" * 80, "x" * 64),
        ("Ж.omni", "graph"),
        ("healthz", "graph"),
    ],
)
def test_a_graph_that_is_named_by_its_place_alone_has_an_id(uri: str, name: str) -> None:
    assert make_graph_id(uri) == name
    check_graph_id(name)


def test_a_policy_or_nothing_without_tokens_says_where_they_are_set() -> None:
    for has_policy in (True, False):
        with pytest.raises(ConfigInvalid, match=f"{SINGLE}, {FILE} or {INLINE}"):
            find_auth_mode(has_tokens=False, has_policy=has_policy, unauthenticated=False)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("version: 1\ngraphs: { a_b: { uri: x } }", "letters, digits and dashes"),
        ("version: 1\ngraphs: { healthz: { uri: x } }", "reserved"),
        ("version: 1\ngraphs: { g: { url: x } }", "unknown key 'url'"),
        ("version: 1\ngraphs: { g: { policy: x } }", "needs a uri"),
        ("version: 1\npolicies: x", "unknown key 'policies'"),
        ("version: 1\ngraphs: { g: { uri: x } }\nlimits: { body_bytes: -1 }", "above 0"),
        ("version: 3", "version must be 1"),
        ("version: 1\ngraphs: { g: { uri: x }, g: { uri: y } }", "'g' is there twice"),
        ("- x", "mapping"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ConfigInvalid, match=reason):
        read_settings(written(tmp_path, text), {})


@pytest.mark.parametrize("graphs", [(), ("x",), ("=x",), ("x=",)])
def test_a_server_without_a_graph_does_not_start(graphs: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        read_settings(Flags(graphs=graphs), {})


@pytest.mark.parametrize(
    "flags",
    [
        Flags(graphs=("a=x", "a=y")),
        Flags(graphs=("a=x",), policies=("a=p.yaml", "a=q.yaml")),
        Flags(graphs=("a=x",), queries=("a=one", "a=two")),
    ],
)
def test_of_two_that_were_given_none_is_picked(flags: Flags) -> None:
    with pytest.raises(UsageError, match="'a' twice"):
        read_settings(flags, {})


@pytest.mark.parametrize(
    ("tokens", "policy", "unauthenticated", "state"),
    [
        (False, False, False, None),
        (False, False, True, AuthMode.OPEN),
        (True, False, False, AuthMode.DEFAULT_DENY),
        (True, False, True, AuthMode.DEFAULT_DENY),
        (False, True, True, None),
        (True, True, False, AuthMode.POLICY),
    ],
)
def test_the_state_follows_from_what_there_is(
    *, tokens: bool, policy: bool, unauthenticated: bool, state: AuthMode | None
) -> None:
    def found() -> AuthMode:
        return find_auth_mode(has_tokens=tokens, has_policy=policy, unauthenticated=unauthenticated)

    if state is None:
        with pytest.raises(ConfigInvalid):
            found()
    else:
        assert found() is state


def test_a_provider_of_embeddings_is_named_in_the_file_and_its_key_is_not(tmp_path: Path) -> None:
    text = GOOD + "embedding: { provider: mock }\n"
    own = "queries: queries, embedding: { provider: openai, model: m, key_env: OUR_KEY } }"
    settings = read_settings(written(tmp_path, text.replace("queries: queries }", own)), {})
    named, default = settings.graphs["research"].embedding, settings.graphs["far"].embedding
    assert named is not None
    assert default is not None
    # What the environment names is for graphs that name nobody.
    around = {"OMNIGRAPH_EMBED_MODEL": "another", "OMNIGRAPH_EMBEDDINGS_MOCK": "1"}
    found = named.resolve({**around, "OUR_KEY": "secret"})
    assert (found.provider, found.model, found.key) == ("openai", "m", "secret")
    assert "secret" not in repr(found)
    assert default.resolve(around).model == ""
    with pytest.raises(ConfigInvalid, match="OUR_KEY"):
        named.resolve({"OPENAI_API_KEY": "not that one"})
    for wrong in ("embedding: { provider: nobody }", "embedding: { key: x }", "embedding: mock"):
        with pytest.raises(ConfigInvalid):
            read_settings(written(tmp_path, GOOD + wrong), {})
