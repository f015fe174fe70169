from stead.cli.terminal import draw_counts, progress


def test_numbers_stand_below_each_other_and_words_agree_with_them():
    rows = [(12, "provider(s) described"), (1, "provider(s) whose traits changed"), (1, "resource class(es) created")]
    rows += [(2, "resource class(es) created"), (None, "(a dry run: nothing was done)")]
    assert [line.plain for line in draw_counts(rows, 80)] == [
        "12 providers described",
        " 1 provider whose traits changed",
        " 1 resource class created",
        " 2 resource classes created",
        "   (a dry run: nothing was done)",
    ]


def test_work_of_less_than_half_a_second_shows_no_bar(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress("reading providers") as advance:
        advance(1, 9)
        advance(8, 9)
    assert capsys.readouterr() == ("", "")
