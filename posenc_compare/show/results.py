"""The records of a comparison as an object: tables, plots and a report of them."""

import functools
import warnings
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from tabulate import tabulate

from posenc_compare.errors import ConfigError
from posenc_compare.records.load import load_records
from posenc_compare.records.record import Record
from posenc_compare.records.selection import Selection
from posenc_compare.registry import PLOTS
from posenc_compare.show.differences import baseline_tables
from posenc_compare.show.format import Table, as_markdown
from posenc_compare.show.frame import LONG, Numbers, without_floors
from posenc_compare.show.latex import as_latex
from posenc_compare.show.plots.paper import SIZES, on_paper
from posenc_compare.show.report import write_report
from posenc_compare.show.setting import coverage
from posenc_compare.show.tables import all_tables
from posenc_compare.validate import check_choice


@dataclass(frozen=True, repr=False)
class Tables:
    """Tables that show themselves: as text, and as Markdown in a notebook."""

    parts: list[Table]
    size: str = ""

    def latex(self) -> str:
        """Return them in LaTeX; a size is the width of paper that they fit."""
        return as_latex(self.parts, self.size)

    def __repr__(self) -> str:
        """Return them as text of fixed width."""
        texts: list[str] = []
        for part in self.parts:
            grid = tabulate(part.body, part.head, disable_numparse=True)
            texts += [part.title, grid, *part.lines]
        return "\n\n".join(texts)

    def _repr_markdown_(self) -> str:
        return as_markdown(self.parts)


@dataclass(frozen=True, repr=False, eq=False)
class Results:
    """The records of a comparison, and what can be shown of them.

    Attributes:
        records: one for each cell, with labels that tell settings apart.
        folder: where they are.
    """

    records: list[Record]
    folder: Path

    @functools.cached_property
    def frame(self) -> pd.DataFrame:
        """Return a row per number; a record without numbers has one that says why."""
        return self._numbers.rows[LONG]

    @functools.cached_property
    def _numbers(self) -> Numbers:
        return Numbers(self.records)

    @property
    def failed(self) -> list[Record]:
        """Return the records of cells that failed or were lost."""
        return [r for r in self.records if r.status in ("failed", "lost")]

    def table(
        self, measure: str = "", task: str = "", *, baseline: str = "", size: str = ""
    ) -> Tables:
        """Return the tables of some measures and tasks, or of all.

        Args:
            measure: its name; or several, or globs, as in `Selection`.
            task: likewise.
            baseline: label of a scheme; trained scores then are differences from its.
            size: of `latex`: column, page, or none.

        Raises:
            ConfigError: if a name or glob stands for no record, or a label for none.
        """
        if size:
            check_choice("size", size, tuple(SIZES))
        selection = Selection(measures=measure, tasks=task)
        records = selection.of(self.records, warnings.warn)
        if baseline:
            return Tables(baseline_tables(records, baseline), size)
        return Tables(all_tables(Numbers(records)), size)

    def plot(
        self, name: str, schemes: str = "", *, size: str = "", floors: bool = True
    ) -> Figure:
        """Draw one plot.

        Args:
            name: as the files of a run are called, such as `uniqueness`.
            schemes: to show, as in `Selection`; all if empty.
            size: width for a paper: column, page, or none.
            floors: whether n-gram models and constant answers are shown.

        Raises:
            ConfigError: if there is no such plot, or the records hold nothing for it.

        Example:
            >>> figure = load("results/ablations/375-steps").plot("extrapolation")
            >>> figure.savefig("extrapolation.pdf")
        """
        records = Selection(schemes).of(self.records, warnings.warn)
        if not floors:
            records = [*map(without_floors, records)]
        with on_paper(size):
            figure = PLOTS.get(name)(Numbers(records).of_networks)
        if figure is None:
            raise ConfigError(
                f"plot {name}: must have records that it can draw, and these hold none"
            )
        return figure

    def report(self, path: str | Path) -> Path:
        """Write one HTML file with tables, plots and provenance; return its path.

        Raises:
            StoreError: if it cannot be written.
        """
        write_report(self._numbers, self.folder.resolve().name, Path(path))
        return Path(path)

    def __repr__(self) -> str:
        """Return how many cells there are, and what became of them."""
        return f"Results({coverage(self.records)})"

    def _repr_markdown_(self) -> str:
        return self.table()._repr_markdown_()


def load(
    folder: str | Path,
    *more: str | Path,
    schemes: str = "",
    measures: str = "",
    tasks: str = "",
) -> Results:
    """Return what folders of records hold; no scheme runs.

    Args:
        folder: of a run.
        *more: other folders, which are read together with it.
        schemes: names or globs, as in `Selection`; all, if empty.
        measures: likewise.
        tasks: likewise.

    Raises:
        ConfigError: if one holds no records, or none is of what is selected.
        StoreError: if one cannot be read.

    Example:
        >>> load("results/language/8-heads", schemes="rope,alibi")
        Results(12 of 12 cells ok)
    """
    folders = [Path(one) for one in (folder, *more)]
    selection = Selection(schemes, measures, tasks)
    records = load_records(folders, selection=selection)
    return Results(records, folders[0])
