//! Reports as one self-contained page: no scripts, no fonts, no external images.

use std::fmt::Write as _;

use super::{Claim, Exhibit, Report, Table, Verdict};
use crate::plot::escape;

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1d1f23;--soft:#5c6370;--line:#d9dce1;--page:#fff;--card:#f6f7f9;\
--good:#0a7040;--good-bg:#e2f4ea;--bad:#a3260f;--bad-bg:#fbe7e2;--open:#7a5a00;--open-bg:#fbf1d3;\
--ours:#1f5f99;--ours-bg:#e4effa}\
@media(prefers-color-scheme:dark){:root{--ink:#e3e5e8;--soft:#9aa1ac;--line:#363a42;--page:#16181c;\
--card:#1e2127;--good:#6fdba5;--good-bg:#123825;--bad:#ff9c85;--bad-bg:#45190f;--open:#f0cf6a;\
--open-bg:#3b2f0a;--ours:#8fc4f5;--ours-bg:#14304b}}\
*{box-sizing:border-box}\
body{margin:0 auto;padding:2.5rem 1.25rem 5rem;max-width:78rem;background:var(--page);color:var(--ink);\
font:16px/1.55 Georgia,'Times New Roman',serif}\
h1{font-size:1.9rem;line-height:1.2;margin:0 0 .3rem}h2{font-size:1.35rem;margin:3rem 0 .4rem;\
padding-top:1rem;border-top:1px solid var(--line)}\
p{max-width:46rem;margin:.6rem 0}.soft{color:var(--soft)}a{color:inherit}\
table{border-collapse:collapse;font:14px/1.45 system-ui,Helvetica,Arial,sans-serif;margin:.8rem 0}\
caption{text-align:left;color:var(--soft);padding:.3rem 0}\
th,td{text-align:right;padding:.28rem .8rem;border-bottom:1px solid var(--line);\
font-variant-numeric:tabular-nums;vertical-align:top}\
th:first-child,td:first-child{text-align:left;padding-left:0}thead th{font-weight:600}\
table.claims td,table.claims th{text-align:left}table.claims{width:100%}\
.wide{overflow-x:auto}\
.claim{max-width:60rem;margin:.8rem 0;padding:.7rem 1rem;background:var(--card);border-radius:6px;\
border-left:4px solid var(--line)}.claim p{margin:.15rem 0;max-width:none}\
.verdict{display:inline-block;font:600 12px/1.5 system-ui,Helvetica,Arial,sans-serif;padding:.08rem .55rem;\
border-radius:1rem;white-space:nowrap}\
.held{color:var(--good);background:var(--good-bg)}.did-not-hold{color:var(--bad);background:var(--bad-bg)}\
.unclear{color:var(--open);background:var(--open-bg)}.our-question{color:var(--ours);background:var(--ours-bg)}\
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(21rem,1fr));gap:1.2rem;margin:1.2rem 0}\
figure{margin:0;max-width:34rem}figure svg{width:100%;height:auto;display:block}\
pre,code{font:13px/1.5 ui-monospace,Menlo,Consolas,monospace}pre{background:var(--card);padding:.8rem 1rem;\
border-radius:6px;overflow-x:auto}\
details{margin:.8rem 0}summary{cursor:pointer;color:var(--soft)}";

/// The number of rows above which a table is collapsed.
const LONG: usize = 16;

/// Renders one or several reports as one page.
pub fn page(reports: &[&Report]) -> String {
    let title = match reports {
        [report] => format!("{}, reproduced", report.title),
        _ => "Papers on leader election, reproduced".to_string(),
    };
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>{}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n",
        escape(&title)
    );
    reports.iter().for_each(|report| page += &section(report));
    page + "</body>\n</html>\n"
}

fn section(report: &Report) -> String {
    let mut html = format!(
        "<h1 id=\"{}\">{}</h1>\n<p class=\"soft\">{}</p>\n",
        report.name,
        escape(report.title),
        escape(report.source)
    );
    html += &paragraphs(&report.introduction);
    html += &overview(report);
    for exhibit in &report.exhibits {
        html += &show(report, exhibit);
    }
    let provenance = &report.provenance;
    let _ = write!(
        html,
        "<h2>Provenance</h2>\n<pre>{}</pre>\n<p>suffrage-lab {}, {} runs per point unless a table says otherwise, \
         first seed {}. The same command makes the same page on every machine, with any number of cores. Bars are \
         95% intervals: exact ones for shares, Student's t for means. Every plot and table has a CSV file in the \
         folder of this page.</p>\n",
        escape(&provenance.command),
        provenance.version,
        provenance.runs,
        provenance.seed
    );
    html + &folded(&report.points)
}

/// The table of all claims, with links to the exhibits.
fn overview(report: &Report) -> String {
    let verdicts = [Verdict::Held, Verdict::DidNotHold, Verdict::Unclear];
    let counts: Vec<String> = verdicts
        .into_iter()
        .filter(|&verdict| report.count(verdict) > 0)
        .map(|verdict| format!("{} {}", report.count(verdict), verdict.label()))
        .collect();
    let mut html = format!(
        "<p><strong>Checked claims of the paper: {}.</strong></p>\n<div class=\"wide\">\
         <table class=\"claims\"><thead><tr><th>location</th><th>claim of the paper</th><th></th></tr></thead>\
         <tbody>\n",
        counts.join(", ")
    );
    for exhibit in &report.exhibits {
        for claim in exhibit.claims.iter().filter(|claim| claim.verdict != Verdict::OurQuestion) {
            let _ = writeln!(
                html,
                "<tr><td><a href=\"#{}-{}\">{}</a></td><td>{}</td><td>{}</td></tr>",
                report.name,
                exhibit.name,
                escape(claim.location),
                escape(&claim.statement),
                badge(claim.verdict)
            );
        }
    }
    html + "</tbody></table></div>\n"
}

fn show(report: &Report, exhibit: &Exhibit) -> String {
    let mut html = format!("<h2 id=\"{}-{}\">{}</h2>\n", report.name, exhibit.name, escape(&exhibit.title));
    if !exhibit.setting.is_empty() {
        let _ = writeln!(html, "<p class=\"soft\">{}</p>", escape(&exhibit.setting));
    }
    exhibit.claims.iter().for_each(|claim| html += &claim_html(claim));
    if !exhibit.plots.is_empty() {
        html += "<div class=\"plots\">\n";
        for plot in &exhibit.plots {
            // Two papers may have plots of the same name, but an id must be unique on a page.
            let (id, unique) = (format!("clip-{}", plot.name), format!("clip-{}-{}", report.name, plot.name));
            let _ = writeln!(html, "<figure>{}</figure>", plot.svg().replace(&id, &unique));
        }
        html += "</div>\n";
    }
    for table in &exhibit.tables {
        html += &if table.rows.len() > LONG { folded(table) } else { tabled(table) };
    }
    html + &paragraphs(&exhibit.notes)
}

fn claim_html(claim: &Claim) -> String {
    let measured =
        if claim.measured.is_empty() { String::new() } else { format!("<p>{}</p>", escape(&claim.measured)) };
    let ours = claim.verdict == Verdict::OurQuestion;
    let location = if ours {
        String::new()
    } else {
        format!(" <span class=\"soft\">({})</span>", escape(claim.location))
    };
    format!(
        "<div class=\"claim\"><p>{} {}{location}</p>{measured}</div>\n",
        badge(claim.verdict),
        escape(&claim.statement)
    )
}

fn badge(verdict: Verdict) -> String {
    let label = verdict.label();
    format!("<span class=\"verdict {}\">{label}</span>", label.replace(' ', "-"))
}

fn tabled(table: &Table) -> String {
    let cells = |tag: &str, cells: &[String]| -> String {
        cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect()
    };
    let rows: String = table.rows.iter().map(|row| format!("<tr>{}</tr>\n", cells("td", row))).collect();
    format!(
        "<div class=\"wide\"><table><caption>{}</caption><thead><tr>{}</tr></thead><tbody>\n{rows}</tbody>\
         </table></div>\n",
        escape(&table.title),
        cells("th", &table.head)
    )
}

/// A collapsed table.
fn folded(table: &Table) -> String {
    format!("<details><summary>{}</summary>\n{}</details>\n", escape(&table.title), tabled(table))
}

fn paragraphs(texts: &[String]) -> String {
    texts.iter().map(|text| format!("<p>{}</p>\n", escape(text))).collect()
}
