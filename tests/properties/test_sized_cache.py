"""What is computed once in a process: found again by its key, and never too much of it."""

from headcheck.properties.sized_cache import EACH, LARGEST_SHARE, SizedCache


def remember(cache: SizedCache[list[int]], key: int, size: int) -> list[int]:
    return cache.get_or_make(key, lambda: [key], lambda _: size)


def test_a_result_is_computed_once() -> None:
    cache = SizedCache[list[int]](1 << 20)
    assert remember(cache, 1, 5) is remember(cache, 1, 5)
    assert remember(cache, 1, 5) is not remember(cache, 2, 5)


def test_the_oldest_are_dropped_where_there_is_no_room() -> None:
    cache = SizedCache[list[int]](LARGEST_SHARE * EACH)
    first = remember(cache, 0, 0)
    last = [remember(cache, key, 0) for key in range(1, LARGEST_SHARE + 1)]
    assert cache.size == cache.limit
    assert len(cache.results) == LARGEST_SHARE
    assert all(remember(cache, key, 0) is last[key - 1] for key in range(1, LARGEST_SHARE + 1))
    assert remember(cache, 0, 0) is not first


def test_a_result_that_would_take_much_of_the_room_is_not_kept() -> None:
    cache = SizedCache[list[int]](LARGEST_SHARE * EACH)
    small = remember(cache, 0, 0)
    assert remember(cache, 1, 1) is not remember(cache, 1, 1)
    assert remember(cache, 0, 0) is small


def test_a_result_that_was_kept_meanwhile_counts_once() -> None:
    cache = SizedCache[list[int]](LARGEST_SHARE * EACH)

    def make_slowly() -> list[int]:
        remember(cache, 0, 0)
        return [1]

    assert cache.get_or_make(0, make_slowly, lambda _: 0) == [0]
    assert cache.size == EACH
