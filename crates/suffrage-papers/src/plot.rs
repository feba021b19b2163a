//! Plots in the style of a paper, as SVG text.
//!
//! A plot is data: axes, and series of points with their intervals. [`Plot::svg`] draws the plot, [`Plot::csv`]
//! writes its numbers. The colours suit people with colour blindness. A second set of colours is for dark pages. The
//! SVG text works as a file of its own and inside a page.

mod axis;
mod draw;

use serde::Serialize;
use suffrage_sim::Estimate;

pub use axis::{Axis, Scale};
pub(crate) use draw::escape;

/// A plot of several series over the same axes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plot {
    /// The name of the plot's files: letters, digits and dashes.
    pub name: String,
    /// The title above the plot.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The series, drawn in this order.
    pub series: Vec<Series>,
}

/// A series of points.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// The style of the series.
    pub style: Style,
    /// The points, from left to right.
    pub points: Vec<Point>,
}

/// The style of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Style {
    /// A solid curve: computed values.
    Curve,
    /// A dashed curve: a bound.
    Bound,
    /// Marks with their intervals, joined by a thin line: measured values.
    Measured,
}

/// A point of a series.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The horizontal position.
    pub x: f64,
    /// The value with its interval. A computed value has an interval of length zero.
    pub y: Estimate,
}

impl Point {
    /// A point with an exact value.
    pub fn exact(x: f64, y: f64) -> Point {
        Point { x, y: Estimate::exact(y) }
    }
}

impl Series {
    /// A curve through points with exact values.
    pub fn computed(name: &str, style: Style, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
        let points = points.into_iter().map(|(x, y)| Point::exact(x, y)).collect();
        Series { name: name.to_string(), style, points }
    }

    /// Marks of measured values.
    pub fn measured(name: &str, points: impl IntoIterator<Item = (f64, Estimate)>) -> Series {
        let points = points.into_iter().map(|(x, y)| Point { x, y }).collect();
        Series { name: name.to_string(), style: Style::Measured, points }
    }
}

impl Plot {
    /// Draws the plot as SVG: a complete document that can also be embedded in a page.
    pub fn svg(&self) -> String {
        draw::svg(self)
    }

    /// The numbers of the plot: series, x, value, and the ends of the interval, which are empty if unknown.
    pub fn csv(&self) -> String {
        let mut text = format!("series,{},{},low,high\n", csv_cell(&self.x.label), csv_cell(&self.y.label));
        for series in &self.series {
            for Point { x, y } in &series.points {
                let ends = match y.is_bounded() {
                    true => format!("{},{}", y.lo, y.hi),
                    false => ",".to_string(),
                };
                text += &format!("{},{x},{},{ends}\n", csv_cell(&series.name), y.mean);
            }
        }
        text
    }
}

/// A cell of a CSV file (RFC 4180), quoted where necessary.
pub fn csv_cell(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot() -> Plot {
        let y = |mean: f64| Estimate { mean, lo: mean - 0.1, hi: mean + 0.1 };
        Plot {
            name: "figure-1".to_string(),
            title: "Success & <more>".to_string(),
            x: Axis::linear("loss"),
            y: Axis::linear("P(success)").from(0.0, 1.0),
            series: vec![
                Series::computed("bound, lower", Style::Bound, [(0.0, 0.2), (0.5, 0.1)]),
                Series::measured("measured", [(0.0, y(0.9)), (0.25, y(0.8)), (0.5, y(0.7))]),
            ],
        }
    }

    #[test]
    fn the_csv_has_all_numbers() {
        let csv = plot().csv();
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines[0], "series,loss,P(success),low,high");
        assert_eq!(lines[1], "\"bound, lower\",0,0.2,0.2,0.2");
        assert_eq!(lines[3], "measured,0,0.9,0.8,1");
        assert_eq!(lines.len(), 6);
        assert_eq!(csv_cell("a \"b\""), "\"a \"\"b\"\"\"");
    }

    #[test]
    fn a_drawing_shows_title_labels_series_and_ticks() {
        let svg = plot().svg();
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
        for text in ["viewBox=", "P(success)", "loss", "bound, lower", "Success &amp; &lt;more&gt;"] {
            assert!(svg.contains(text), "{text} is missing in {svg}");
        }
        assert_eq!(svg.matches("class=\"mark").count(), 3 + 1, "three marks, and one in the legend");
        assert_eq!(svg.matches("class=\"bar").count(), 3, "each with its interval");
        assert!(svg.contains("stroke-dasharray"), "the bound is dashed");
        let open = svg.matches("<g").count();
        assert_eq!(open, svg.matches("</g>").count());
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    /// Everything is drawn inside the frame: what exceeds the axes is clipped.
    #[test]
    fn lines_outside_the_axes_are_clipped() {
        let mut plot = plot();
        plot.series[1].points[0].y = Estimate { mean: 1.7, lo: 0.5, hi: 9.0 };
        let svg = plot.svg();
        assert_eq!(svg.matches("class=\"mark").count(), 2 + 1, "a mark outside is not drawn");
        assert!(svg.contains("clip-path"));
    }

    #[test]
    fn empty_and_flat_plots_can_be_drawn() {
        let mut plot = plot();
        plot.y = Axis::linear("y");
        plot.series.truncate(1);
        plot.series[0].points = vec![Point::exact(3.0, 3.0)];
        assert!(!plot.svg().contains("NaN"));
        plot.series.clear();
        assert!(!plot.svg().contains("NaN"));
        plot.y = Axis::log("y");
        plot.x = Axis::log("x");
        assert!(!plot.svg().contains("NaN"));
    }
}
