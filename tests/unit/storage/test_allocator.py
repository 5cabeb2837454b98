"""Being frugal with memory is a setting of the process, whoever asks for it, and how often."""

from omnigraph.storage.allocator import LARGE_BYTES, USUAL_BYTES, Frugality


def test_the_first_to_be_frugal_sets_it_and_the_last_takes_it_back() -> None:
    told: list[int] = []
    frugal = Frugality(lambda _, size: told.append(size))
    with frugal():
        with frugal():
            assert told == [LARGE_BYTES]
        assert told == [LARGE_BYTES]
    assert told == [LARGE_BYTES, USUAL_BYTES]
    with frugal():
        assert told[2:] == [LARGE_BYTES]


def test_an_allocator_without_the_setting_is_left_alone() -> None:
    with Frugality(None)():
        pass
