//! Reads a recorded trace.

use std::io::BufRead;

use super::{EventName, FORMAT, Header, Line, Sink, VERSION};

/// Reads all lines of a trace and passes them to a sink. The error names the line.
pub(crate) fn read(input: impl BufRead, sink: &mut dyn Sink) -> Result<(), String> {
    let mut last = 0.0;
    let mut is_open = false;
    for (index, text) in input.lines().enumerate() {
        let number = index + 1;
        let text = text.map_err(|error| format!("line {number}: {error}"))?;
        if text.trim().is_empty() {
            continue;
        }
        let failed = |error: std::io::Error| error.to_string();
        if !is_open {
            sink.open(&header(&text).map_err(|reason| format!("line {number}: {reason}"))?)
                .map_err(failed)?;
            is_open = true;
            continue;
        }
        let line: Line = serde_json::from_str(&text)
            .map_err(|error| format!("line {number} is not an event of a trace: {error}"))?;
        if line.event == EventName::Opened {
            return Err(format!("line {number}: a second trace begins; split the file"));
        }
        // A comparison with NaN is false: NaN is refused too.
        if !(line.at >= last && line.at.is_finite()) {
            return Err(format!("line {number}: the time {} is before {last}; sort the lines", line.at));
        }
        last = line.at;
        sink.line(&line).map_err(failed)?;
    }
    if !is_open {
        return Err("the file is empty".to_string());
    }
    sink.close().map_err(|error| error.to_string())
}

fn header(text: &str) -> Result<Header, String> {
    let hint = "record a trace with `suffrage-lab simulate … --trace FILE`";
    let value: serde_json::Value =
        serde_json::from_str(text).map_err(|_| format!("this is not the header of a trace; {hint}"))?;
    if value["format"] != FORMAT {
        return Err(format!("this is not the header of a trace; {hint}"));
    }
    match value["version"].as_u64() {
        Some(version) if version > u64::from(VERSION) => Err(format!(
            "the trace has version {version}, and this program reads up to {VERSION}; install a newer suffrage-lab"
        )),
        _ => serde_json::from_value(value).map_err(|error| format!("the header is incomplete: {error}")),
    }
}
