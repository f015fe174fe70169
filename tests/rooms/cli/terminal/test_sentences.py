"""Sentences on a narrow terminal: an amount stays on one line with its resource class."""

import pytest

from stead.cli.terminal import say

RELEASED = "released a82447f2-e41e-4941-b689-07b19c423801: 100 CUSTOM_X, 1,016,384 MEMORY_MB, 8 PCPU"
CHANGED = "18:59:11 provider host-1: 4 / 16 VCPU, 1,000 / 2,000 MEMORY_MB, 512 / 2,000,000 DISK_GB, 9 / 9 VGPU"


@pytest.mark.parametrize("sentence", [RELEASED, CHANGED])
@pytest.mark.parametrize("width", range(28, 120))
def test_an_amount_is_on_one_line_with_its_class(
    sentence: str, width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    say(sentence, indent=2)
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    for amount in sentence.partition(": ")[2].split(", "):
        assert any(amount in line for line in lines), lines


def test_nothing_is_lost_or_added(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    say(CHANGED, indent=9)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 40
    assert " ".join(line.strip() for line in lines) == CHANGED
