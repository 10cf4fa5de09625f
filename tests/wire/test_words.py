"""Files that both processes map."""

from __future__ import annotations

import os

import pytest

from harness.wire.words import PAGE_BYTES, RELEASE, Page, sealed_file


@pytest.mark.parametrize("size", [0, 4095, 8192])
def test_nobody_changes_the_size_of_a_shared_file(size: int) -> None:
    fd = sealed_file("a test", 4096)
    with pytest.raises(PermissionError):
        os.ftruncate(fd, size)
    assert os.fstat(fd).st_size == 4096
    os.close(fd)


def test_two_views_of_a_page_share_its_words() -> None:
    page = Page.create()
    other = Page(os.dup(page.fd))
    page.words[RELEASE] = 7
    assert other.words[RELEASE] == 7
    assert os.fstat(page.fd).st_size == PAGE_BYTES
    other.close()
    page.close()
