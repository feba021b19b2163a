//! The player of runs: one self-contained page with the runs in it.

mod encoder;
mod schedule;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};
use suffrage_web::{File, PLAYER_MODULES, PLAYER_PAGE, PLAYER_STYLES, join_modules};

pub(crate) use encoder::Encoder;
pub(crate) use schedule::encode_schedule;

/// Escapes text for HTML.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A page that needs nothing else: styles, scripts and data are in it, and its policy allows no other script or style.
pub(crate) struct Page<'a> {
    pub(crate) title: &'a str,
    /// Style sheets after those of the player.
    pub(crate) styles: &'a [File],
    /// Modules after those of the player.
    pub(crate) modules: &'a [File],
    pub(crate) body: &'a str,
}

impl Page<'_> {
    pub(crate) fn html(&self) -> String {
        let styles: String = PLAYER_STYLES.iter().chain(self.styles).map(|file| file.text).collect();
        let modules: Vec<File> = PLAYER_MODULES.iter().chain(self.modules).copied().collect();
        let script = join_modules(&modules);
        let hash = |text: &str| STANDARD.encode(Sha256::digest(text.as_bytes()));
        let policy = format!(
            "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; base-uri 'none'; \
             form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
            hash(&script),
            hash(&styles)
        );
        let (title, body) = (escape(self.title), self.body);
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"referrer\" content=\"no-referrer\">\n<title>{title}</title>\n\
             <link rel=\"icon\" href=\"data:,\">\n<style>{styles}</style>\n</head>\n<body>\n{body}\
             <script type=\"module\">{script}</script>\n</body>\n</html>\n"
        )
    }
}

/// The element with the data of a run.
pub(crate) fn data_element(name: &str, run: &Encoder) -> String {
    format!(
        "<script type=\"application/octet-stream\" data-run=\"{}\">{}</script>\n",
        escape(name),
        run.text()
    )
}

const BODY: &str = "<a class=\"skip\" href=\"#stage\">To the run</a>
<header class=\"bar\"><h1 id=\"title\"></h1><select id=\"choice\" aria-label=\"Run\" hidden></select>\
<div class=\"end\"><button type=\"button\" id=\"theme\" class=\"quiet\"></button></div></header>
<main class=\"page\">
<p id=\"note\" class=\"notice bad\" hidden></p>
<div id=\"stage\" tabindex=\"-1\"></div>
<details class=\"legend\"><summary>Keys and signs</summary>
<ul>
<li><kbd>Space</kbd> plays and pauses, <kbd>←</kbd> <kbd>→</kbd> step, <kbd>Home</kbd> <kbd>End</kbd> jump</li>
<li><kbd>+</kbd> <kbd>-</kbd> zoom in time, <kbd>[</kbd> <kbd>]</kbd> in processes, <kbd>F</kbd> shows all</li>
<li><kbd>H</kbd> folds heartbeats: messages that repeat while nothing happens</li>
<li>Drag moves the view; the wheel zooms after a click, with Shift it moves, with Alt it zooms in processes</li>
<li>A thick bar: the process leads, with its term. A thin bar: it follows the leader of that colour</li>
<li>A bracket above a line: a lease. Dots below a line: the process suspects another</li>
<li>A striped region: the network is cut; each group has its own stripes</li>
<li>A dashed arrow: a message that the source does not count. A cross: the message does not arrive</li>
<li>● a command, ? suspects, ! no longer suspects, ✕ crashes, ◇ recovers or resumes, ± rank changes, ↷ clock jumps</li>
<li>The address of this page names the moment that is shown, and can be shared</li>
</ul></details>
</main>
";

/// The page of one run or several, each with its name. The first one is shown first.
pub(crate) fn page(title: &str, runs: &[(String, Encoder)]) -> String {
    let data: String = runs.iter().map(|(name, run)| data_element(name, run)).collect();
    Page { title, styles: &[], modules: &[PLAYER_PAGE], body: &format!("{BODY}{data}") }.html()
}
