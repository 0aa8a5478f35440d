"""Figures that papers have published come out the same here."""

import pytest

from posenc_compare.reproduce.published import Figure, figures, smallest_base

FIGURES = list(figures())


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.what)
def test_a_published_figure_is_reproduced(figure: Figure) -> None:
    assert figure.verdict in ("same", "drawn only")


def test_4096_needs_more_than_the_base_printed_for_4k() -> None:
    assert smallest_base(4096) == 2.9e4


def test_the_decay_curve_falls() -> None:
    (curve,) = (f.ours for f in FIGURES if f.published is None)
    assert curve == sorted(curve, reverse=True)
    assert curve[0] == 32.5  # the mean of 1 ... 64


def test_the_command_prints_them(posenc) -> None:
    done = posenc("reproduce", "--format", "csv")
    assert done.returncode == 0
    same = sum(figure.verdict == "same" for figure in FIGURES)
    assert done.stdout.count("same") == same > 5


def test_a_figure_that_differs_is_exit_code_1(posenc, monkeypatch) -> None:
    from posenc_compare.reproduce import published

    monkeypatch.setattr(published, "slopes", lambda heads: [1.0] * heads)
    assert posenc("reproduce").returncode == 1
