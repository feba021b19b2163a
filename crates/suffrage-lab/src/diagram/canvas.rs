//! The layout of a diagram in characters.

use std::collections::BTreeSet;

use suffrage_core::NodeId;

/// The state of a process, which decides how its lifeline is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Up,
    Paused,
    Down,
}

/// The shape that a row draws across the lifelines. Processes are named by column.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    /// Marks on lifelines.
    Marks(Vec<(usize, char)>),
    /// A message.
    Arrow {
        from: usize,
        to: usize,
        /// Whether the source counts the message. Other arrows are dashed.
        solid: bool,
        /// Whether the message arrives.
        arrives: bool,
    },
    /// A message that arrives, with a mark for the reaction of its addressee.
    MarkedArrow { from: usize, to: usize, solid: bool, mark: char },
    /// A line across everything.
    Rule,
}

impl Shape {
    /// Adds the mark for the reaction of a process.
    pub(super) fn mark(&mut self, column: usize, mark: char) {
        match self {
            Shape::Marks(marks) => *marks = vec![(column, mark)],
            Shape::Arrow { from, to, solid, .. } => {
                *self = Shape::MarkedArrow { from: *from, to: *to, solid: *solid, mark };
            }
            Shape::MarkedArrow { mark: old, .. } => *old = mark,
            Shape::Rule => {}
        }
    }

    fn marks(&self) -> Vec<char> {
        match self {
            Shape::Marks(marks) => marks.iter().map(|(_, mark)| *mark).collect(),
            Shape::Arrow { solid, arrives, .. } => {
                let line = if *solid { None } else { Some('┄') };
                line.into_iter().chain((!arrives).then_some('x')).collect()
            }
            Shape::MarkedArrow { mark, solid, .. } => {
                (!solid).then_some('┄').into_iter().chain([*mark]).collect()
            }
            Shape::Rule => Vec::new(),
        }
    }
}

/// The meanings of the marks, in the order of the legend.
const LEGEND: &[(char, &str)] = &[
    ('●', "calls an election"),
    ('★', "leads"),
    ('☆', "follows"),
    ('○', "has no leader"),
    ('◦', "time-out"),
    ('?', "suspects"),
    ('!', "no longer suspects"),
    ('✗', "crashes"),
    ('◇', "recovers or resumes"),
    ('±', "changes rank"),
    ('↷', "clock jumps"),
    ('‖', "pauses"),
    ('x', "never arrives"),
    ('┄', "uncounted"),
];

/// The dimensions of a diagram.
#[derive(Debug)]
pub(super) struct Canvas {
    ids: Vec<String>,
    time_width: usize,
    /// From one lifeline to the next.
    spacing: usize,
    /// From the left edge to the first lifeline.
    margin: usize,
}

impl Canvas {
    pub(super) fn new(ids: &[NodeId], time_width: Option<usize>) -> Canvas {
        let ids: Vec<String> = ids.iter().map(NodeId::to_string).collect();
        let widest = ids.iter().map(String::len).max().unwrap_or(1);
        let roomy = if ids.len() <= 8 { 6 } else { 5 };
        Canvas {
            time_width: time_width.unwrap_or(0).max(4),
            spacing: roomy.max(widest + 2),
            margin: widest / 2,
            ids,
        }
    }

    fn x(&self, column: usize) -> usize {
        self.margin + column * self.spacing
    }

    fn width(&self) -> usize {
        self.x(self.ids.len() - 1) + self.margin + 1
    }

    fn compose(&self, time: &str, cells: &[char], note: &str) -> String {
        let drawing: String = cells.iter().collect();
        format!("{time:>width$}  {drawing}   {note}", width = self.time_width).trim_end().to_string()
    }

    /// The names of the processes above their lifelines.
    pub(super) fn heading(&self) -> String {
        let mut cells = vec![' '; self.width()];
        for (column, id) in self.ids.iter().enumerate() {
            let start = self.x(column) - id.len() / 2;
            for (offset, digit) in id.chars().enumerate() {
                cells[start + offset] = digit;
            }
        }
        self.compose("time", &cells, "")
    }

    /// One row.
    pub(super) fn line(&self, time: &str, lives: &[Life], shape: &Shape, note: &str) -> String {
        let mut cells = vec![' '; self.width()];
        for (column, life) in lives.iter().enumerate() {
            cells[self.x(column)] = match life {
                Life::Up => '│',
                Life::Paused => '┊',
                Life::Down => ' ',
            };
        }
        match shape {
            Shape::Marks(marks) => {
                marks.iter().for_each(|&(column, mark)| cells[self.x(column)] = mark);
            }
            Shape::Arrow { from, to, solid, arrives } => self.arrow(&mut cells, *from, *to, *solid, *arrives),
            Shape::MarkedArrow { from, to, solid, mark } => {
                self.arrow(&mut cells, *from, *to, *solid, true);
                cells[self.x(*to)] = *mark;
            }
            Shape::Rule => {
                for cell in &mut cells {
                    *cell = if matches!(*cell, '│' | '┊') { '╪' } else { '═' };
                }
            }
        }
        self.compose(time, &cells, note)
    }

    fn arrow(&self, cells: &mut [char], from: usize, to: usize, solid: bool, arrives: bool) {
        let line = if solid { '─' } else { '┄' };
        let (start, end) = (self.x(from), self.x(to));
        if start == end {
            cells[start] = '↻';
            return;
        }
        let right = start < end;
        for cell in &mut cells[start.min(end) + 1..start.max(end)] {
            *cell = if matches!(*cell, '│' | '┊') { '┼' } else { line };
        }
        cells[start] = match (cells[start], right) {
            ('│' | '┊', true) => '├',
            ('│' | '┊', false) => '┤',
            // The sender has crashed since.
            (_, true) => '╶',
            (_, false) => '╴',
        };
        let tip = if right { end - 1 } else { end + 1 };
        cells[tip] = match (arrives, right) {
            (true, true) => '▶',
            (true, false) => '◀',
            (false, _) => 'x',
        };
    }

    /// The legend of the marks that the diagram uses.
    pub(super) fn legend<'a>(&self, shapes: impl Iterator<Item = &'a Shape>) -> String {
        let used: BTreeSet<char> = shapes.flat_map(Shape::marks).collect();
        let used = LEGEND.iter().filter(|(mark, _)| used.contains(mark));
        let mut lines = vec![format!("{:width$}", "", width = self.time_width)];
        for word in used.map(|(mark, meaning)| format!("  {mark} {meaning}")) {
            if lines[lines.len() - 1].chars().count() + word.chars().count() > 100 {
                lines.push(format!("{:width$}", "", width = self.time_width));
            }
            *lines.last_mut().expect("there is always a line") += &word;
        }
        lines.join("\n")
    }
}
