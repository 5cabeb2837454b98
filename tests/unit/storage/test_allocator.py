"""Being frugal with memory is a setting of the process, whoever asks for it, and how often."""

import ctypes

import pytest

from omnigraph.storage.allocator import LARGE_BYTES, USUAL_BYTES, MemoryRelease, releasing_memory

LIBRARY = ctypes.CDLL(None)


def test_the_first_to_be_frugal_sets_it_and_the_last_takes_it_back() -> None:
    told: list[int] = []
    releasing_memory = MemoryRelease(lambda _, size: told.append(size))
    with releasing_memory():
        with releasing_memory():
            assert told == [LARGE_BYTES]
        assert told == [LARGE_BYTES]
    assert told == [LARGE_BYTES, USUAL_BYTES]
    with releasing_memory():
        assert told[2:] == [LARGE_BYTES]


def test_an_allocator_without_the_setting_is_left_alone() -> None:
    releasing_memory = MemoryRelease(None)
    with (
        pytest.raises(MemoryError, match="of the work inside"),
        releasing_memory(),
        releasing_memory(),
    ):
        raise MemoryError("of the work inside")
    with releasing_memory():
        assert releasing_memory._count == 1, "those before have left"


class Mallinfo(ctypes.Structure):
    """`struct mallinfo2` of the GNU C library."""

    _fields_ = (
        ("before", ctypes.c_size_t * 3),
        ("hblks", ctypes.c_size_t),
        ("after", ctypes.c_size_t * 6),
    )
    hblks: int
    """Blocks that are given back to the system whenever they are freed."""


@pytest.mark.skipif(not hasattr(LIBRARY, "mallinfo2"), reason="another C library, or an old one")
def test_a_large_block_is_given_back_while_somebody_is_frugal() -> None:
    LIBRARY.mallinfo2.restype = Mallinfo
    LIBRARY.malloc.restype = ctypes.c_void_p

    def are_given_back() -> bool:
        """Of many blocks, for the first may find a place that others left."""
        before = LIBRARY.mallinfo2().hblks
        blocks = [ctypes.c_void_p(LIBRARY.malloc(4 * LARGE_BYTES)) for _ in range(300)]
        after = LIBRARY.mallinfo2().hblks
        for each in blocks:
            LIBRARY.free(each)
        return bool(after > before)

    with releasing_memory():
        assert are_given_back()
    assert not are_given_back()
