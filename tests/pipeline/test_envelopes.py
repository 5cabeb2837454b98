"""Lines sorted by how they begin: none is lost, none is moved, none is in the wrong group."""

from hypothesis import example, given, settings, strategies as st

from omnigraph.pipeline.sources.envelopes import Lines

BEGINNINGS = (
    b'{"type":"A"',
    b'{"type": "A"',
    b'{"type":"AB"',
    b'{"edge":"A"',
    b'{"type":"A\\"',
    b'{"type":"a type whose name goes on and on"',
    b'{ "type":"A"',
    b"",
)
LINES = st.lists(
    st.builds(
        lambda begin, middle, end: begin + middle + end,
        st.sampled_from(BEGINNINGS),
        st.binary(max_size=9).map(lambda each: each.replace(b"\n", b"")),
        st.sampled_from([b"}", b"}\r", b"", b" ", b"\r"]),
    ),
    max_size=30,
)


@settings(max_examples=300, deadline=None)
@given(LINES, st.booleans())
@example([b'{"type":"A"}', b'{"type":"A'], False)
@example([b"}"], False)
@example([b'{"type":"A"}'] * 3 + [b""] * 40 + [b'{"edge":"A"}'], True)
def test_every_line_is_in_the_group_of_its_envelope_or_in_none(
    lines: list[bytes],
    ends: bool,  # noqa: FBT001 - drawn
) -> None:
    block = b"\n".join(lines) + (b"\n" if ends else b"")
    kept = block.split(b"\n")
    kept = kept if kept[-1] else kept[:-1]
    cut = Lines(block)
    assert [cut[number] for number in range(len(cut))] == kept
    groups, odd = cut.sort()
    numbers = [each for group in groups for each in group.numbers.tolist()] + odd.tolist()
    assert sorted(numbers) == list(range(len(kept)))
    for group in groups:
        some = [kept[each] for each in group.numbers]
        assert group.numbers.tolist() == sorted(group.numbers)
        assert group.text.to_pybytes().rstrip(b"\n") == b"\n".join(some).rstrip(b"\n")
        for line in some:
            compact = line.replace(b'": "', b'":"', 1)
            assert compact.startswith(b'{"' + group.kind + b'":"' + group.name + b'"')
            assert line.removesuffix(b"\r").endswith(b"}")


def test_what_a_program_wrote_is_read_together() -> None:
    lines = [b'{"type":"A","data":{}}', b'{"edge":"B","from":"x","to":"y"}'] * 50
    groups, odd = Lines(b"\n".join([b"", b"nonsense", *lines])).sort()
    assert [(group.name, len(group.numbers)) for group in groups] == [(b"A", 50), (b"B", 50)]
    assert odd.tolist() == [0, 1]
