//! From a run to SVG.

use std::fmt::Write as _;

use suffrage_core::NodeId;

use super::{Arrow, Mark, Picture, Theme};
use crate::player::escape;
use crate::trace::EventName;
use suffrage_cli::text;

/// Colours that colour-blind readers tell apart (Okabe and Ito), darkened where white text stands on them.
const NODES: [&str; 9] =
    ["#0072b2", "#d55e00", "#009e73", "#b5559b", "#b07d00", "#3f9fd8", "#7a3e9d", "#5b6570", "#8f2d3c"];
const INK: &str = "#1a1a1a";
const SOFT: &str = "#666";
const GOOD: &str = "#00694e";
const BAD: &str = "#a8200d";
const WARN: &str = "#8a4b00";
/// The assumed width of a letter, in units of the font size: the font is not known.
const LETTER: f64 = 0.58;

/// The measures of a theme.
struct Measures {
    width: f64,
    row: f64,
    font: f64,
    line: f64,
}

struct Canvas<'a> {
    picture: &'a Picture,
    shown: &'a [NodeId],
    measures: Measures,
    left: f64,
    top: f64,
    from: f64,
    to: f64,
    svg: String,
}

pub(super) fn svg(picture: &Picture, shown: &[NodeId], arrows: &[&Arrow]) -> String {
    let measures = match picture.options.theme {
        Theme::Paper => Measures { width: 760.0, row: 44.0, font: 11.0, line: 1.0 },
        Theme::Slide => Measures { width: 1280.0, row: 86.0, font: 20.0, line: 2.0 },
    };
    let (from, to) = picture.range();
    let longest = shown.iter().map(|id| id.to_string().len()).max().unwrap_or(1);
    let left = measures.font * (3.8 + longest as f64 * LETTER);
    let top = measures.font * 4.2;
    let mut canvas = Canvas { picture, shown, measures, left, top, from, to, svg: String::new() };
    canvas.cuts();
    canvas.lines();
    canvas.bars();
    canvas.arrows(arrows);
    canvas.marks();
    canvas.violations();
    let (width, font) = (canvas.measures.width, canvas.measures.font);
    let height = top + canvas.measures.row * shown.len() as f64 + font * 0.6;
    // What is drawn beyond the range is clipped; the axis and the names are not.
    let body = std::mem::take(&mut canvas.svg);
    canvas.axis();
    canvas.lane();
    canvas.names();
    let frame = &canvas.svg;
    let title = escape(&format!("Space-time diagram of {}", picture.algorithm));
    let stripe = font * 0.8;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"Helvetica, Arial, 'Liberation Sans', sans-serif\" \
         font-size=\"{font}\" role=\"img\">\n<title>{title}</title>\n\
         <rect width=\"{width:.0}\" height=\"{height:.0}\" fill=\"#fff\"/>\n<defs>\n\
         <clipPath id=\"run\"><rect x=\"{:.1}\" y=\"0\" width=\"{:.1}\" height=\"{height:.1}\"/></clipPath>\n\
         <pattern id=\"even\" width=\"{stripe}\" height=\"{stripe}\" patternUnits=\"userSpaceOnUse\" \
         patternTransform=\"rotate(45)\"><path d=\"M0 0V{stripe}\" stroke=\"{WARN}\" stroke-width=\"1\" \
         stroke-opacity=\"0.45\"/></pattern>\n\
         <pattern id=\"odd\" width=\"{stripe}\" height=\"{stripe}\" patternUnits=\"userSpaceOnUse\" \
         patternTransform=\"rotate(-45)\"><path d=\"M0 0V{stripe}\" stroke=\"#0b5cad\" stroke-width=\"1\" \
         stroke-opacity=\"0.45\"/></pattern>\n</defs>\n<g clip-path=\"url(#run)\">\n{body}</g>\n{frame}</svg>\n",
        left - font * 0.9,
        width - left + font * 0.9,
    )
}

impl Canvas<'_> {
    fn x(&self, at: f64) -> f64 {
        let width = self.measures.width - self.left - self.measures.font * 1.6;
        self.left + (at - self.from) / (self.to - self.from) * width
    }

    fn y(&self, node: NodeId) -> Option<f64> {
        let row = self.shown.iter().position(|&id| id == node)?;
        Some(self.top + (row as f64 + 0.5) * self.measures.row)
    }

    /// The part of a span that is shown, on the screen.
    fn span(&self, from: f64, to: f64) -> Option<(f64, f64)> {
        let (from, to) = (from.max(self.from), to.min(self.to).min(self.picture.end));
        (from <= to).then(|| (self.x(from), self.x(to).max(self.x(from) + 1.0)))
    }

    fn colour(&self, node: NodeId) -> &'static str {
        NODES[((node.0.max(1) - 1) % NODES.len() as u64) as usize]
    }

    fn rect(&mut self, [x, y, width, height]: [f64; 4], attributes: &str) {
        let _ = writeln!(
            self.svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" {attributes}/>"
        );
    }

    fn path(&mut self, path: &str, stroke: &str, width: f64, attributes: &str) {
        let _ = writeln!(
            self.svg,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"{width:.1}\"{attributes}/>"
        );
    }

    fn text(&mut self, x: f64, y: f64, anchor: &str, colour: &str, attributes: &str, content: &str) {
        // The baseline is a third of the font size below the middle. `dominant-baseline` is not drawn everywhere.
        let y = y + self.measures.font * 0.34;
        let content = escape(content);
        let _ = writeln!(
            self.svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\"{attributes}>{content}</text>"
        );
    }

    fn width_of(&self, text: &str) -> f64 {
        text.chars().count() as f64 * self.measures.font * LETTER
    }

    /// A cut: a striped band over the rows of each group.
    fn cuts(&mut self) {
        let (row, font, line) = (self.measures.row, self.measures.font, self.measures.line);
        let bottom = self.top + row * self.shown.len() as f64;
        for cut in &self.picture.intervals.cuts {
            let Some((left, right)) = self.span(cut.from, cut.to) else { continue };
            for (index, group) in cut.groups.iter().enumerate() {
                let (fill, pattern) = if index % 2 == 0 { ("#fdf3e3", "even") } else { ("#e9f2fb", "odd") };
                for &node in group {
                    let Some(y) = self.y(node) else { continue };
                    let area = [left, y - row / 2.0, right - left, row];
                    self.rect(area, &format!("fill=\"{fill}\""));
                    self.rect(area, &format!("fill=\"url(#{pattern})\""));
                }
            }
            let path =
                format!("M{left:.1} {:.1}V{bottom:.1}M{right:.1} {:.1}V{bottom:.1}", self.top, self.top);
            self.path(&path, WARN, line * 1.2, "");
            self.text(left + font * 0.4, self.top + font * 0.5, "start", WARN, "", "cut");
        }
    }

    fn lines(&mut self) {
        let (font, line) = (self.measures.font, self.measures.line);
        let Some((left, right)) = self.span(0.0, self.picture.end) else { return };
        for &node in self.shown {
            let Some(y) = self.y(node) else { continue };
            self.path(&format!("M{left:.1} {y:.1}H{right:.1}"), SOFT, line, "");
        }
        for life in &self.picture.intervals.lives.all {
            let (Some(y), Some((left, right))) = (self.y(life.node), self.span(life.from, life.to)) else {
                continue;
            };
            self.rect([left, y - line * 1.5, right - left, line * 3.0], "fill=\"#fff\"");
            let (dashes, colour, word) =
                if life.what { ("1 5", BAD, "down") } else { ("6 4", SOFT, "paused") };
            let path = format!("M{left:.1} {y:.1}H{right:.1}");
            self.path(&path, colour, line, &format!(" stroke-dasharray=\"{dashes}\""));
            if right - left > self.width_of(word) + font * 2.5 {
                self.label(left + font * 1.2 + self.width_of(word) / 2.0, y, colour, word);
            }
        }
    }

    /// Centred text on white.
    fn label(&mut self, x: f64, y: f64, colour: &str, text: &str) {
        let (width, font) = (self.width_of(text), self.measures.font);
        self.rect([x - width / 2.0, y - font * 0.6, width, font * 1.2], "fill=\"#fff\" fill-opacity=\"0.9\"");
        self.text(x, y, "middle", colour, "", text);
    }

    fn bars(&mut self) {
        let (font, line) = (self.measures.font, self.measures.line);
        let (thin, thick) = (font * 0.4, font * 1.35);
        for belief in &self.picture.intervals.beliefs.all {
            let (Some(y), Some((left, right))) = (self.y(belief.node), self.span(belief.from, belief.to))
            else {
                continue;
            };
            let (leader, term) = belief.what;
            let leads = leader == belief.node;
            let height = if leads { thick } else { thin };
            let fill = format!(
                "fill=\"{}\"{}",
                self.colour(leader),
                if leads { "" } else { " fill-opacity=\"0.75\"" }
            );
            self.rect([left, y - height / 2.0, right - left, height], &fill);
            let name = format!("leads, {term}");
            if leads && right - left > self.width_of(&name) + font * 1.4 {
                self.text(left + font * 1.1, y, "start", "#fff", " font-weight=\"bold\"", &name);
            }
        }
        for lease in &self.picture.intervals.leases.all {
            let (Some(y), Some((left, right))) = (self.y(lease.node), self.span(lease.from, lease.to)) else {
                continue;
            };
            let top = y - thick / 2.0 - font * 0.3;
            let path =
                format!("M{left:.1} {:.1}V{top:.1}H{right:.1}V{:.1}", top + font * 0.3, top + font * 0.3);
            self.path(&path, self.colour(lease.node), line * 1.6, "");
        }
        for suspicion in &self.picture.intervals.suspicions.all {
            let (Some(y), Some((left, right))) =
                (self.y(suspicion.node), self.span(suspicion.from, suspicion.to))
            else {
                continue;
            };
            let path = format!("M{left:.1} {:.1}H{right:.1}", y + thick / 2.0 + font * 0.3);
            self.path(&path, WARN, line * 1.6, " stroke-dasharray=\"2 3\"");
        }
    }

    fn arrows(&mut self, arrows: &[&Arrow]) {
        /// More arrows than this have no names.
        const MOST_NAMES: usize = 60;
        let mut taken: Vec<[f64; 4]> = Vec::new();
        for arrow in arrows {
            let (Some(from_y), Some(to_y)) = (self.y(arrow.from), self.y(arrow.to)) else { continue };
            let (x, row, font) = (self.x(arrow.sent), self.measures.row, self.measures.font);
            let mut end = (self.x(arrow.end), to_y);
            // A message that is dropped as it is sent does not come far.
            if arrow.end <= arrow.sent && arrow.arrives != Some(true) {
                let down = if to_y > from_y { 1.0 } else { -1.0 };
                end = (x + font, from_y + down * row * 0.45);
            }
            let is_lost = arrow.arrives == Some(false);
            let colour = if is_lost { BAD } else { INK };
            let dashes = if arrow.counted { "" } else { " stroke-dasharray=\"4 3\"" };
            let path = format!("M{x:.1} {from_y:.1}L{:.1} {:.1}", end.0, end.1);
            self.path(&path, colour, self.measures.line, dashes);
            match arrow.arrives {
                Some(true) => self.head(x, from_y, end, colour),
                Some(false) => self.cross(end.0, end.1, colour),
                None => {}
            }
            if arrows.len() <= MOST_NAMES {
                self.arrow_name(arrow, (x, from_y), end, colour, &mut taken);
            }
        }
    }

    fn head(&mut self, x: f64, y: f64, end: (f64, f64), colour: &str) {
        let (dx, dy) = (end.0 - x, end.1 - y);
        let length = dx.hypot(dy).max(1e-6);
        let (dx, dy, size) = (dx / length, dy / length, self.measures.font * 0.75);
        let (back_x, back_y, half) = (end.0 - dx * size, end.1 - dy * size, size * 0.36);
        let _ = writeln!(
            self.svg,
            "<path d=\"M{:.1} {:.1}L{:.1} {:.1}L{:.1} {:.1}z\" fill=\"{colour}\"/>",
            end.0,
            end.1,
            back_x - dy * half,
            back_y + dx * half,
            back_x + dy * half,
            back_y - dx * half
        );
    }

    fn cross(&mut self, x: f64, y: f64, colour: &str) {
        let half = self.measures.font * 0.36;
        let (left, right, up, down) = (x - half, x + half, y - half, y + half);
        let path = format!("M{left:.1} {up:.1}L{right:.1} {down:.1}M{right:.1} {up:.1}L{left:.1} {down:.1}");
        self.path(&path, colour, self.measures.line * 1.8, "");
    }

    /// The name of a message beside its arrow, where no other name and no line of a process is.
    fn arrow_name(
        &mut self,
        arrow: &Arrow,
        (x1, y1): (f64, f64),
        (x2, y2): (f64, f64),
        colour: &str,
        taken: &mut Vec<[f64; 4]>,
    ) {
        let (half, font) = (self.width_of(&arrow.kind) / 2.0, self.measures.font);
        for share in [0.5, 0.35, 0.65, 0.25, 0.75] {
            let (x, y) = ((x1 + (x2 - x1) * share).max(self.left + half), y1 + (y2 - y1) * share);
            let area = [x - half, y - font * 0.6, x + half, y + font * 0.6];
            let row = ((y - self.top) / self.measures.row).fract();
            let is_on_line = (row - 0.5).abs() * self.measures.row < font * 1.1;
            let overlaps = |[left, top, right, bottom]: &[f64; 4]| {
                area[0] < *right && area[2] > *left && area[1] < *bottom && area[3] > *top
            };
            if !is_on_line && !taken.iter().any(overlaps) {
                taken.push(area);
                return self.label(x, y, colour, &arrow.kind);
            }
        }
    }

    fn marks(&mut self) {
        let (font, line) = (self.measures.font, self.measures.line);
        for &Mark { at, node, event } in &self.picture.marks {
            let (Some(y), true) = (self.y(node), (self.from..=self.to).contains(&at)) else { continue };
            let x = self.x(at);
            let (colour, sign) = match event {
                EventName::Crashed => (BAD, ""),
                EventName::Suspected => (WARN, "?"),
                EventName::Restored => (INK, "!"),
                EventName::Ranked => (INK, "±"),
                EventName::Jumped => (INK, "»"),
                _ => (INK, ""),
            };
            let radius = font * 0.62;
            let _ = writeln!(
                self.svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\" fill=\"#fff\" stroke=\"{colour}\" \
                 stroke-width=\"{:.1}\"/>",
                line * 1.2
            );
            match event {
                EventName::Crashed => self.cross(x, y, colour),
                EventName::Commanded => {
                    let inner = radius * 0.5;
                    let _ = writeln!(
                        self.svg,
                        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{inner:.1}\" fill=\"{colour}\"/>"
                    );
                }
                EventName::Recovered | EventName::Resumed => {
                    let half = radius * 0.55;
                    let path = format!(
                        "M{x:.1} {:.1}l{half:.1} {half:.1}l-{half:.1} {half:.1}l-{half:.1} -{half:.1}z",
                        y - half
                    );
                    self.path(&path, colour, line, "");
                }
                _ => self.text(x, y, "middle", colour, " font-weight=\"bold\"", sign),
            }
        }
    }

    fn violations(&mut self) {
        let bottom = self.top + self.measures.row * self.shown.len() as f64;
        for &at in &self.picture.intervals.violations {
            if !(self.from..=self.to).contains(&at) {
                continue;
            }
            let x = self.x(at);
            let path = format!("M{x:.1} {:.1}V{bottom:.1}", self.top);
            self.path(&path, BAD, self.measures.line * 1.6, " stroke-dasharray=\"6 3\"");
            self.text(x - 4.0, bottom - self.measures.font * 0.3, "end", BAD, "", "broken promise");
        }
    }

    fn axis(&mut self) {
        let font = self.measures.font;
        let most = ((self.measures.width - self.left) / (font * 7.0)).max(2.0);
        let raw = (self.to - self.from) / most;
        let power = 10_f64.powi(raw.log10().floor() as i32);
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|&step| step >= raw);
        let step = step.unwrap_or(power * 10.0);
        self.text(font * 0.4, font, "start", SOFT, "", "time");
        let mut count = (self.from / step).ceil();
        while count * step <= self.to + step * 1e-9 {
            let at = count * step;
            let x = self.x(at);
            self.text(x, font, "middle", SOFT, "", &text::number(at));
            self.path(
                &format!("M{x:.1} {:.1}v{:.1}", font * 1.65, font * 0.35),
                SOFT,
                self.measures.line,
                "",
            );
            count += 1.0;
        }
    }

    /// The lane of leaders: nobody, one, or more than one at the same time.
    fn lane(&mut self) {
        let font = self.measures.font;
        let counts = self.picture.intervals.leader_counts();
        for (index, &(from, leaders)) in counts.iter().enumerate() {
            let to = counts.get(index + 1).map_or(f64::INFINITY, |next| next.0);
            let Some((left, right)) = self.span(from, to) else { continue };
            let (fill, colour, name) = match leaders {
                0 => ("#e8ebee", SOFT, "no leader".to_string()),
                1 => (GOOD, "#fff", "1 leader".to_string()),
                more => (BAD, "#fff", format!("{more} leaders")),
            };
            self.rect([left, font * 2.2, right - left, font * 1.3], &format!("fill=\"{fill}\""));
            if right - left > self.width_of(&name) + font {
                let size = format!(" font-size=\"{:.1}\"", font * 0.9);
                self.text(left + font * 0.4, font * 2.83, "start", colour, &size, &name);
            }
        }
    }

    fn names(&mut self) {
        for &node in self.shown {
            let Some(y) = self.y(node) else { continue };
            let x = self.left - self.measures.font * 1.2;
            let colour = self.colour(node);
            self.text(x, y, "end", colour, " font-weight=\"bold\"", &node.to_string());
        }
    }
}
