"""Being frugal with memory is a setting of the process, whoever asks for it, and how often."""

import ctypes

import pytest

from omnigraph.storage.allocator import (
    KEPT_BYTES,
    LARGE_BYTES,
    USUAL_BYTES,
    FreedMemory,
    freed_memory,
)

LIBRARY = ctypes.CDLL(None)

TRIM, MMAP = -1, -3
"""`M_TRIM_THRESHOLD` and `M_MMAP_THRESHOLD` in `malloc.h`."""


def test_the_first_to_be_frugal_sets_it_and_the_last_takes_it_back() -> None:
    told: list[int] = []
    freed_memory = FreedMemory(lambda _, size: told.append(size))
    with freed_memory.returned():
        with freed_memory.returned():
            assert told == [LARGE_BYTES]
        assert told == [LARGE_BYTES]
    assert told == [LARGE_BYTES, USUAL_BYTES]
    with freed_memory.returned():
        assert told[2:] == [LARGE_BYTES]


def test_freed_memory_is_kept_once_and_not_while_somebody_is_frugal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[tuple[int, int]] = []
    freed_memory = FreedMemory(lambda setting, size: told.append((setting, size)))
    with freed_memory.returned():
        told.clear()
        freed_memory.keep()
        freed_memory.keep()
        assert told == [(TRIM, KEPT_BYTES)]
    assert told[1:] == [(MMAP, USUAL_BYTES)]

    alone = FreedMemory(lambda setting, size: told.append((setting, size)))
    told.clear()
    alone.keep()
    assert told == [(TRIM, KEPT_BYTES), (MMAP, USUAL_BYTES)]

    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1000000")
    told.clear()
    FreedMemory(lambda setting, size: told.append((setting, size))).keep()
    assert told == [], "the user has set it"


def test_an_allocator_without_the_setting_is_left_alone() -> None:
    freed_memory = FreedMemory(None)
    freed_memory.keep()
    with (
        pytest.raises(MemoryError, match="of the work inside"),
        freed_memory.returned(),
        freed_memory.returned(),
    ):
        raise MemoryError("of the work inside")
    with freed_memory.returned():
        assert freed_memory._returning == 1, "those before have left"


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

    with freed_memory.returned():
        assert are_given_back()
    assert not are_given_back()
