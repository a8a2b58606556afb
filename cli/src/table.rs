//! Tables whose columns are as wide as their content, and no wider than the terminal.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::output::plain;
use crate::screen::Screen;

const GAP: usize = 2;
/// The minimum width to which a column is cut.
const WIDTH_MIN: usize = 8;

/// Rows below a row of headings.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    painted: Option<(usize, Paint)>,
}

/// A function that colors a cell.
type Paint = fn(Screen, &str) -> String;

impl Table {
    pub(crate) fn new<const N: usize>(heads: [&str; N]) -> Self {
        Self { rows: vec![heads.map(String::from).into()], painted: None }
    }

    /// Sets the function that colors the cells of a column.
    pub(crate) fn paint(&mut self, column: usize, paint: Paint) {
        self.painted = Some((column, paint));
    }

    /// Adds a row, with one cell for each heading.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.iter().map(|cell| plain(cell).into_owned()).collect());
    }

    /// Returns the table as lines, without a final line break.
    pub(crate) fn render(&self, screen: Screen) -> String {
        let widths = self.widths(screen.width);
        let lines = self.rows.iter().enumerate().map(|(n, row)| {
            let cells = row.iter().zip(&widths);
            let cells: Vec<_> =
                cells.map(|(cell, width)| padded(&cut(cell, *width), *width)).collect();
            let line = cells.join(&" ".repeat(GAP));
            let line = line.trim_end();
            let fits = screen.width.is_none_or(|width| line.width() <= width);
            match self.painted {
                _ if n == 0 => screen.bold(cut(line, screen.width.unwrap_or(usize::MAX))),
                // A line that is too long is not colored: the cut could remove the end of a color code.
                Some((column, paint)) if fits => {
                    let painted = |(n, cell): (usize, &String)| {
                        if n == column { paint(screen, cell) } else { cell.clone() }
                    };
                    let cells: Vec<_> = cells.iter().enumerate().map(painted).collect();
                    cells.join(&" ".repeat(GAP)).trim_end().into()
                }
                _ => cut(line, screen.width.unwrap_or(usize::MAX)),
            }
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Returns the widths of the columns. If they exceed the available width, the widest columns shrink.
    fn widths(&self, available: Option<usize>) -> Vec<usize> {
        let n_columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width_of = |column: usize| self.rows.iter().map(move |row| row[column].width()).max();
        let mut widths: Vec<_> = (0..n_columns).map(|n| width_of(n).unwrap_or(0)).collect();
        let gaps = GAP * n_columns.saturating_sub(1);
        while widths.iter().sum::<usize>() + gaps > available.unwrap_or(usize::MAX) {
            match widths.iter_mut().max() {
                Some(widest) if *widest > WIDTH_MIN => *widest -= 1,
                _ => break,
            }
        }
        widths
    }
}

fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

/// Cuts the text to the width, with an ellipsis at the end.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.into();
    }
    let mut left = width.saturating_sub(1);
    let fits = |c: &char| {
        let needed = c.width().unwrap_or(0);
        let does = needed <= left;
        left = left.saturating_sub(needed);
        does
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(width: Option<usize>, rows: &[[&str; 3]]) -> String {
        let mut table = Table::new(["LOCK", "OWNER", "LEFT"]);
        for row in rows {
            table.row(row.map(String::from));
        }
        table.render(Screen::plain(width))
    }

    #[test]
    fn columns_line_up_by_what_is_seen() {
        let shown = render(None, &[["漢字", "a", "1s"], ["nightly", "worker-1", "10s"]]);
        assert_eq!(shown, "LOCK     OWNER     LEFT\n漢字     a         1s\nnightly  worker-1  10s");
    }

    #[test]
    fn the_widest_column_gives_way_to_the_terminal() {
        let shown = render(Some(30), &[["a-very-long-name-of-a-lock", "worker-1", "10s"]]);
        assert_eq!(shown, "LOCK            OWNER     LEFT\na-very-long-n…  worker-1  10s");
        assert!(shown.lines().all(|line| line.width() <= 30));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_however_narrow() {
        let wide = "漢字漢字漢字漢字漢字";
        for width in 1..60 {
            let shown = render(Some(width), &[[wide, wide, wide], ["x", "y", "z"]]);
            assert!(shown.lines().all(|line| line.width() <= width), "{width}:\n{shown}");
        }
    }
}
