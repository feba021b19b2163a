//! The pages of suffrage: plain ES modules and style sheets without a build step, embedded in the programs.
//!
//! Each page has a folder beside `src`; `shared` has the colours, the controls and the helpers of all pages. A program
//! embeds the files of the pages that it names, and no others.
//!
//! Pages get no resource from elsewhere, and have no inline script and no inline style: [`CONTENT_SECURITY_POLICY`]
//! forbids both. All texts become `textContent`: names and values of elections are input of strangers. The policy forbids
//! the ways to make markup of a text, too.

/// The Content-Security-Policy of all pages.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types 'none'";

/// A file of a page.
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// The path in the folder of this crate, such as `shared/base.css`.
    pub path: &'static str,
    /// The media type.
    pub media_type: &'static str,
    /// The contents.
    pub text: &'static str,
}

macro_rules! file {
    ($path:literal, $media_type:literal) => {
        File { path: $path, media_type: $media_type, text: include_str!(concat!("../", $path)) }
    };
}

/// The style sheet of all pages: colours, type, controls; light and dark.
pub const BASE_CSS: File = file!("shared/base.css", "text/css; charset=utf-8");
/// The helpers of all pages: elements, texts, theme.
pub const BASE_JS: File = file!("shared/base.js", "text/javascript; charset=utf-8");
/// The icon of all pages.
pub const ICON: File = file!("shared/icon.svg", "image/svg+xml");

/// The style sheets of the player of runs, in order.
pub const PLAYER_STYLES: &[File] = &[BASE_CSS, file!("player/style.css", "text/css; charset=utf-8")];
/// The modules of the player of runs, in the order of their dependencies.
pub const PLAYER_MODULES: &[File] = &[
    BASE_JS,
    file!("player/model.js", "text/javascript; charset=utf-8"),
    file!("player/draw.js", "text/javascript; charset=utf-8"),
    file!("player/player.js", "text/javascript; charset=utf-8"),
];
/// The module of the page with one player, after [`PLAYER_MODULES`].
pub const PLAYER_PAGE: File = file!("player/page.js", "text/javascript; charset=utf-8");

/// The module of the gallery of algorithms, after [`PLAYER_MODULES`].
pub const GALLERY_PAGE: File = file!("gallery/page.js", "text/javascript; charset=utf-8");
/// The style sheet of the gallery, after [`PLAYER_STYLES`].
pub const GALLERY_STYLE: File = file!("gallery/style.css", "text/css; charset=utf-8");

/// Joins modules to one, for pages that are a single file. Each module imports only modules before it, and an import is one
/// line.
pub fn join_modules(modules: &[File]) -> String {
    let mut joined = String::new();
    for line in modules.iter().flat_map(|module| module.text.lines()) {
        if !line.starts_with("import ") {
            joined += line.strip_prefix("export ").unwrap_or(line);
            joined.push('\n');
        }
    }
    joined
}

/// The cluster's page, which every node serves.
pub const CLUSTER: &[File] = &[
    file!("cluster/index.html", "text/html; charset=utf-8"),
    file!("cluster/style.css", "text/css; charset=utf-8"),
    file!("cluster/main.js", "text/javascript; charset=utf-8"),
    file!("cluster/api.js", "text/javascript; charset=utf-8"),
    file!("cluster/voters.js", "text/javascript; charset=utf-8"),
    file!("cluster/hears.js", "text/javascript; charset=utf-8"),
    file!("cluster/list.js", "text/javascript; charset=utf-8"),
    file!("cluster/detail.js", "text/javascript; charset=utf-8"),
    BASE_CSS,
    BASE_JS,
    ICON,
];

/// The playground, the page of `suffrage demo`.
pub const PLAYGROUND: &[File] = &[
    file!("playground/index.html", "text/html; charset=utf-8"),
    file!("playground/style.css", "text/css; charset=utf-8"),
    file!("playground/main.js", "text/javascript; charset=utf-8"),
    file!("playground/nodes.js", "text/javascript; charset=utf-8"),
    file!("playground/timeline.js", "text/javascript; charset=utf-8"),
    BASE_CSS,
    BASE_JS,
    ICON,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The files of all pages.
    const PAGES: &[&[File]] =
        &[CLUSTER, PLAYGROUND, PLAYER_STYLES, PLAYER_MODULES, &[PLAYER_PAGE, GALLERY_PAGE, GALLERY_STYLE]];

    fn all() -> impl Iterator<Item = &'static File> {
        PAGES.iter().copied().flatten()
    }

    #[test]
    fn a_page_is_small() {
        for page in [CLUSTER, PLAYGROUND] {
            let bytes: usize = page.iter().map(|file| file.text.len()).sum();
            assert!(bytes <= 150_000, "{bytes} bytes");
        }
    }

    #[test]
    fn pages_need_nothing_from_elsewhere() {
        for file in all() {
            // The name of a namespace is no address.
            let text = file.text.replace("http://www.w3.org/2000/svg", "");
            for foreign in ["http:", "https:", "src=\"//", "url(//", "@import"] {
                assert!(!text.contains(foreign), "{}: {foreign}", file.path);
            }
        }
    }

    #[test]
    fn pages_make_no_markup_of_texts() {
        let sinks = ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("];
        for file in all().filter(|file| file.media_type.starts_with("text/javascript")) {
            for sink in sinks {
                assert!(!file.text.contains(sink), "{}: {sink}", file.path);
            }
        }
    }

    #[test]
    fn documents_have_no_inline_script_or_style() {
        for file in all().filter(|file| file.media_type.starts_with("text/html")) {
            for inline in ["<style", " style=", "<script>", "javascript:", " onclick=", " onload="] {
                assert!(!file.text.contains(inline), "{}: {inline}", file.path);
            }
        }
    }
}
