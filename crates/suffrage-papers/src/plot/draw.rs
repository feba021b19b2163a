//! From plots to SVG.

use std::fmt::Write as _;

use super::axis::Fitted;
use super::{Plot, Point, Series, Style};

const WIDTH: f64 = 460.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 16.0;
/// The distance between the frame and marks at the ends of the axis.
const INSET: f64 = 10.0;
/// The height of the frame.
const HEIGHT: f64 = 250.0;
/// The space below the frame, for numbers and the label.
const BELOW: f64 = 48.0;
/// The space above the frame for the title. Each line of the legend adds [`LEGEND_LINE`].
const TITLE: f64 = 30.0;
const LEGEND_LINE: f64 = 18.0;

/// Colours after Okabe and Ito, which people with colour blindness can tell apart: for light pages, and lighter for
/// dark pages.
const COLOURS: [(&str, &str); 6] = [
    ("#0072b2", "#56b4e9"),
    ("#d55e00", "#ff8c42"),
    ("#00805c", "#2fd0a0"),
    ("#a8457f", "#e69cc4"),
    ("#8a6d00", "#f0c430"),
    ("#555555", "#bbbbbb"),
];

/// The style sheet for dark pages. The attributes have the light colours, for programs without style sheets.
fn style() -> String {
    let mut style = String::from(
        "@media (prefers-color-scheme:dark){.ink{fill:#ddd}.frame{stroke:#999}.grid{stroke:#3a3a3a}\
         .hollow{fill:#16181c}",
    );
    for (place, (_, dark)) in COLOURS.iter().enumerate() {
        let _ = write!(style, ".c{place}{{stroke:{dark}}}.f{place}{{fill:{dark}}}");
    }
    style + "}"
}

pub(super) fn svg(plot: &Plot) -> String {
    let values =
        |of: fn(&Point) -> [f64; 3]| plot.series.iter().flat_map(|series| &series.points).flat_map(of);
    let legend = legend(plot);
    let canvas = Canvas {
        x: plot.x.fit(values(|point| [point.x; 3])),
        y: plot.y.fit(values(|point| [point.y.mean, point.y.lo, point.y.hi])),
        top: TITLE + legend.lines as f64 * LEGEND_LINE,
    };
    let height = canvas.top + HEIGHT + BELOW;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"{}\" font-family=\"Helvetica,Arial,sans-serif\" font-size=\"12\">\n<style>{}</style>\n",
        escape(&plot.title),
        style()
    );
    let _ = writeln!(
        svg,
        "<clipPath id=\"clip-{0}\"><rect x=\"{LEFT}\" y=\"{1:.1}\" width=\"{2:.1}\" height=\"{HEIGHT}\"/>\
         </clipPath>",
        plot.name,
        canvas.top,
        WIDTH - LEFT - RIGHT
    );
    let middle = (LEFT + WIDTH - RIGHT) / 2.0;
    svg += &text(middle, 17.0, "middle", "font-size=\"13\" font-weight=\"bold\"", &plot.title);
    svg += &legend.svg;
    svg += &canvas.axes(plot);
    let _ = writeln!(svg, "<g clip-path=\"url(#clip-{})\">", plot.name);
    for (place, series) in plot.series.iter().enumerate() {
        svg += &canvas.line(place, series);
    }
    svg += "</g>\n";
    for (place, series) in plot.series.iter().enumerate() {
        svg += &canvas.marks(place, series);
    }
    svg + "</svg>\n"
}

/// The frame and its axes.
struct Canvas {
    x: Fitted,
    y: Fitted,
    top: f64,
}

impl Canvas {
    fn right(&self, value: f64) -> f64 {
        LEFT + INSET + self.x.place(value) * (WIDTH - LEFT - RIGHT - 2.0 * INSET)
    }

    fn up(&self, value: f64) -> f64 {
        self.top + (1.0 - self.y.place(value)) * HEIGHT
    }

    fn axes(&self, plot: &Plot) -> String {
        let (bottom, end) = (self.top + HEIGHT, WIDTH - RIGHT);
        let mut svg = String::new();
        let mut line = |class: &str, style: &str, from: (f64, f64), to: (f64, f64)| {
            let _ = writeln!(
                svg,
                "<path class=\"{class}\" d=\"M{:.1} {:.1}L{:.1} {:.1}\" {style}/>",
                from.0, from.1, to.0, to.1
            );
        };
        let (grid, tick) = ("stroke=\"#e4e4e4\" stroke-width=\"0.8\"", "stroke=\"#555\" stroke-width=\"1\"");
        for (value, _) in &self.x.ticks {
            let x = self.right(*value);
            line("grid", grid, (x, self.top), (x, bottom));
            line("frame", tick, (x, bottom), (x, bottom - 5.0));
        }
        for (value, _) in &self.y.ticks {
            let y = self.up(*value);
            line("grid", grid, (LEFT, y), (end, y));
            line("frame", tick, (LEFT, y), (LEFT + 5.0, y));
        }
        for value in &self.x.minor {
            line("frame", tick, (self.right(*value), bottom), (self.right(*value), bottom - 2.5));
        }
        for value in &self.y.minor {
            line("frame", tick, (LEFT, self.up(*value)), (LEFT + 2.5, self.up(*value)));
        }
        let _ = writeln!(
            svg,
            "<rect class=\"frame\" x=\"{LEFT}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{HEIGHT}\" fill=\"none\" \
             stroke=\"#555\" stroke-width=\"1\"/>",
            self.top,
            end - LEFT
        );
        for (value, label) in &self.x.ticks {
            svg += &text(self.right(*value), bottom + 16.0, "middle", "font-size=\"11\"", label);
        }
        for (value, label) in &self.y.ticks {
            svg += &text(LEFT - 7.0, self.up(*value) + 4.0, "end", "font-size=\"11\"", label);
        }
        svg += &text((LEFT + end) / 2.0, bottom + 38.0, "middle", "", &plot.x.label);
        let (x, y) = (15.0, self.top + HEIGHT / 2.0);
        let turned = format!("transform=\"rotate(-90 {x:.1} {y:.1})\"");
        svg + &text(x, y, "middle", &turned, &plot.y.label)
    }

    /// The line of a series and the bars of its intervals, which may exceed the frame.
    fn line(&self, place: usize, series: &Series) -> String {
        let mut svg = String::new();
        let shown = |point: &&Point| point.x.is_finite() && self.up(point.y.mean).is_finite();
        let points: Vec<String> = series
            .points
            .iter()
            .filter(shown)
            .map(|point| format!("{:.1} {:.1}", self.right(point.x), self.up(point.y.mean)))
            .collect();
        if points.len() > 1 {
            let _ = writeln!(
                svg,
                "<path class=\"c{}\" d=\"M{}\" fill=\"none\" {}/>",
                place % COLOURS.len(),
                points.join("L"),
                stroke(place, series.style)
            );
        }
        for Point { x, y } in &series.points {
            if series.style != Style::Measured || y.lo >= y.hi || !y.is_bounded() {
                continue;
            }
            let (x, low, high) = (self.right(*x), self.up(y.lo), self.up(y.hi));
            // If the scale has no position for an end, the bar exceeds the frame.
            let low = if low.is_finite() { low } else { self.top + 2.0 * HEIGHT };
            let _ = writeln!(
                svg,
                "<path class=\"bar c{}\" d=\"M{:.1} {low:.1}h6M{x:.1} {low:.1}V{high:.1}M{:.1} \
                 {high:.1}h6\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.1\"/>",
                place % COLOURS.len(),
                x - 3.0,
                x - 3.0,
                COLOURS[place % COLOURS.len()].0,
            );
        }
        svg
    }

    fn marks(&self, place: usize, series: &Series) -> String {
        if series.style != Style::Measured {
            return String::new();
        }
        let inside = |at: f64| (-1e-9..=1.0 + 1e-9).contains(&at);
        let points = series.points.iter();
        let points =
            points.filter(|point| inside(self.x.place(point.x)) && inside(self.y.place(point.y.mean)));
        points.map(|point| mark(place, self.right(point.x), self.up(point.y.mean))).collect()
    }
}

fn stroke(place: usize, style: Style) -> String {
    let (width, dashes) = match style {
        Style::Curve => (1.8, ""),
        Style::Bound => (1.8, " stroke-dasharray=\"6 4\""),
        Style::Measured => (1.2, ""),
    };
    format!(
        "stroke=\"{}\" stroke-width=\"{width}\" stroke-linejoin=\"round\"{dashes}",
        COLOURS[place % COLOURS.len()].0
    )
}

/// A mark. Each series has its own shape, for prints without colours.
fn mark(place: usize, x: f64, y: f64) -> String {
    let (class, colour) = (place % COLOURS.len(), COLOURS[place % COLOURS.len()].0);
    let path = match place % 5 {
        0 => format!("M{:.1} {y:.1}a3.4 3.4 0 1 0 6.8 0a3.4 3.4 0 1 0 -6.8 0z", x - 3.4),
        1 => format!("M{:.1} {:.1}h6.2v6.2h-6.2z", x - 3.1, y - 3.1),
        2 => format!("M{x:.1} {:.1}l3.9 6.8h-7.8z", y - 4.4),
        4 => format!("M{x:.1} {:.1}l3.9 -6.8h-7.8z", y + 4.4),
        _ => format!("M{x:.1} {:.1}l4.3 4.3l-4.3 4.3l-4.3 -4.3z", y - 4.3),
    };
    // Every second series has hollow marks.
    let fill = if place.is_multiple_of(2) { format!("f{class}") } else { "hollow".to_string() };
    let inner = if place.is_multiple_of(2) { colour } else { "#fff" };
    format!(
        "<path class=\"mark c{class} {fill}\" d=\"{path}\" fill=\"{inner}\" stroke=\"{colour}\" stroke-width=\"1.3\"/>\n"
    )
}

struct Legend {
    svg: String,
    lines: usize,
}

/// The names of the series, side by side above the frame, where they hide nothing.
fn legend(plot: &Plot) -> Legend {
    /// The assumed average width of a letter: the font is not known.
    const LETTER: f64 = 6.1;
    const SAMPLE: f64 = 34.0;
    let (mut svg, mut lines, mut x) = (String::new(), 1, LEFT);
    for (place, series) in plot.series.iter().enumerate() {
        let width = SAMPLE + series.name.chars().count() as f64 * LETTER + 14.0;
        if x > LEFT && x + width > WIDTH {
            (x, lines) = (LEFT, lines + 1);
        }
        let y = TITLE - 4.0 + (lines - 1) as f64 * LEGEND_LINE + LEGEND_LINE / 2.0;
        let _ = writeln!(
            svg,
            "<path class=\"c{}\" d=\"M{x:.1} {y:.1}h26\" fill=\"none\" {}/>",
            place % COLOURS.len(),
            stroke(place, series.style)
        );
        if series.style == Style::Measured {
            svg += &mark(place, x + 13.0, y);
        }
        svg += &text(x + SAMPLE - 2.0, y + 4.0, "start", "font-size=\"11.5\"", &series.name);
        x += width;
    }
    Legend { svg, lines: if plot.series.is_empty() { 0 } else { lines } }
}

fn text(x: f64, y: f64, anchor: &str, style: &str, content: &str) -> String {
    let content = escape(content);
    let style = if style.is_empty() { String::new() } else { format!(" {style}") };
    format!(
        "<text class=\"ink\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"#222\"{style}>{content}</text>\n"
    )
}

/// Escapes text for SVG and HTML.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
