//! A figure: series over labelled positions, printed as a table, written as CSV and as SVG.
use crate::{Error, Result, card, table};
use plotters::prelude::*;
use std::path::Path;

/// One line or one group of bars.
pub struct Series {
    /// What it is called in the legend.
    pub name: String,
    /// A value for each position; `None` where nothing was measured.
    pub values: Vec<Option<f64>>,
}

/// A figure of a paper, measured here.
pub struct Figure {
    /// Name of the files.
    pub id: &'static str,
    /// What is shown.
    pub title: String,
    /// What the positions are.
    pub x: &'static str,
    /// Unit of the values.
    pub y: &'static str,
    /// The positions.
    pub positions: Vec<String>,
    /// What was measured.
    pub series: Vec<Series>,
    /// What the paper has, and what else is to be known, a line each.
    pub notes: Vec<String>,
}

const WIDTH: u32 = 900;
const HEIGHT: u32 = 520;
/// From Okabe and Ito's palette, which most people with a colour-vision deficiency can tell apart.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(90, 90, 90),
];

impl Figure {
    /// Prints the table and writes `DIR/ID.csv` and `DIR/ID.svg`.
    pub fn publish(&self, dir: &Path) -> Result<()> {
        let header: Vec<&str> =
            std::iter::once(self.x).chain(self.series.iter().map(|s| s.name.as_str())).collect();
        let row = |i: usize, show: &dyn Fn(f64) -> String| -> Vec<String> {
            let values = self.series.iter().map(|s| s.values.get(i).copied().flatten());
            std::iter::once(self.positions[i].clone())
                .chain(values.map(|v| v.map_or_else(|| "-".into(), show)))
                .collect()
        };
        let rows = |show: &dyn Fn(f64) -> String| {
            (0..self.positions.len()).map(|i| row(i, show)).collect::<Vec<_>>()
        };
        table::print(&format!("{} [{}]", self.title, self.y), &header, &rows(&readable));
        self.notes.iter().for_each(|n| println!("{n}"));
        table::csv(dir, self.id, &header, &rows(&|v| v.to_string()))?;
        let path = dir.join(format!("{}.svg", self.id));
        self.draw(&path).map_err(|e| Error::Reply(format!("{}: {e}", path.display())))?;
        println!("plot: {}", path.display());
        Ok(())
    }

    /// Bars in groups: honest for positions that are names as well as for numbers that are not evenly spaced.
    fn draw(&self, path: &Path) -> std::result::Result<(), Box<dyn std::error::Error>> {
        let all = self.series.iter().flat_map(|s| s.values.iter().flatten());
        let top = all.fold(0.0f64, |a, b| a.max(*b)).max(f64::MIN_POSITIVE) * 1.12;
        let root = SVGBackend::new(path, (WIDTH, HEIGHT)).into_drawing_area();
        root.fill(&WHITE)?;
        let positions = self.positions.len();
        let mut chart = ChartBuilder::on(&root)
            .caption(&self.title, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(84)
            .build_cartesian_2d(0.0..positions as f64, 0.0..top)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(2 * positions + 1)
            .x_label_formatter(&|x| {
                // Labels stand under the middle of their group.
                let at = x.floor();
                if (x - at - 0.5).abs() < 1e-6 {
                    self.positions.get(at as usize).cloned().unwrap_or_default()
                } else {
                    String::new()
                }
            })
            .y_label_formatter(&|y| readable(*y))
            .x_desc(format!("{} - {}", self.x, card::machine()))
            .y_desc(self.y)
            .draw()?;
        let width = 0.8 / self.series.len().max(1) as f64;
        for (n, series) in self.series.iter().enumerate() {
            let colour = COLOURS[n % COLOURS.len()];
            let left = |i: usize| i as f64 + 0.1 + n as f64 * width;
            let bars = series.values.iter().enumerate().filter_map(|(i, v)| {
                v.map(|v| Rectangle::new([(left(i), 0.0), (left(i) + width * 0.92, v)], colour.filled()))
            });
            chart
                .draw_series(bars)?
                .label(&series.name)
                .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled()));
        }
        chart
            .configure_series_labels()
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.3))
            .draw()?;
        root.present()?;
        Ok(())
    }
}

/// Three significant digits or so.
fn readable(v: f64) -> String {
    match v.abs() {
        a if a >= 1000.0 => table::thousands(v),
        a if a >= 100.0 => format!("{v:.0}"),
        a if a >= 10.0 => format!("{v:.1}"),
        _ => format!("{v:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_shows_every_series_and_says_what_was_not_measured() {
        let dir = std::env::temp_dir().join(format!("kintsugi-figure-{}", std::process::id()));
        let series = |name: &str, values| Series { name: name.into(), values };
        let figure = Figure {
            id: "test",
            title: "A test".into(),
            x: "size",
            y: "transactions/s",
            positions: vec!["1".into(), "8".into()],
            series: vec![
                series("one", vec![Some(1.0), Some(20_000.0)]),
                series("two", vec![None, Some(3.5)]),
            ],
            notes: Vec::new(),
        };
        figure.publish(&dir).unwrap();
        let csv = std::fs::read_to_string(dir.join("test.csv")).unwrap();
        assert_eq!(csv, "size,one,two\n1,1,-\n8,20000,3.5\n");
        let svg = std::fs::read_to_string(dir.join("test.svg")).unwrap();
        for word in ["one", "two", "A test", "transactions/s"] {
            assert!(svg.contains(word), "{word} is missing");
        }
        // Three bars, two boxes of the legend, the background, and the legend's own.
        assert!(svg.matches("<rect").count() >= 6, "{svg}");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
