//! Pictures and pages of runs.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::support::{HOW_TO_BLESS, blessing, difference, path, run, succeed};

const GOLDEN: &str = "crates/suffrage-lab/tests/it/bully.svg";
const BULLY: &str = "suffrage-lab simulate bully --nodes 4 --crash 4@8 --recover 4@30 --partition '1|2,3@14..22' --detector ideal:2";

/// A folder for one test.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("suffrage-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Draws a run, and returns the picture.
fn draw(command: &str) -> String {
    let folder = folder("svg");
    let file = folder.join(format!("{:x}.svg", command.len()));
    succeed(&format!("{command} --svg {}", file.display()));
    let svg = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(file).unwrap();
    svg
}

#[test]
fn the_picture_of_a_run_is_as_committed() {
    let svg = draw(BULLY);
    if blessing() {
        std::fs::write(path(GOLDEN), &svg).unwrap();
    }
    let golden = std::fs::read_to_string(path(GOLDEN)).unwrap_or_default();
    assert_eq!(svg, golden, "{}\n{HOW_TO_BLESS}", difference(&golden, &svg));
}

/// The part of a text between two others, which are there once.
fn between<'t>(text: &'t str, start: &str, end: &str) -> &'t str {
    let (_, rest) = text.split_once(start).unwrap_or_else(|| panic!("{start}"));
    assert!(!rest.contains(start), "{start}");
    rest.split_once(end).unwrap_or_else(|| panic!("{end}")).0
}

/// The policy of a page allows its own script and its own style by their hashes, and no other.
fn assert_policy_allows_own(page: &str) {
    let policy = between(page, "http-equiv=\"Content-Security-Policy\" content=\"", "\"");
    let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text.as_bytes())));
    let sources = |directive: &str| {
        let found = policy.split("; ").find_map(|part| part.strip_prefix(directive));
        found.unwrap_or_else(|| panic!("{policy}: no {directive}")).trim()
    };
    assert_eq!(sources("default-src"), "'none'");
    assert_eq!(sources("script-src"), hash(between(page, "<script type=\"module\">", "</script>")));
    assert_eq!(sources("style-src"), hash(between(page, "<style>", "</style>")));
}

#[test]
fn a_picture_shows_a_part_of_a_run() {
    let lines = |svg: &str, text: &str| svg.matches(text).count();
    let whole = draw(BULLY);
    for text in [">2 leaders<", ">cut<", ">down<", ">leads, 1<", "font-family=\"Helvetica, Arial"] {
        assert!(whole.contains(text), "{text}");
    }
    let begin = draw(&format!("{BULLY} --to 7"));
    assert!(!begin.contains(">cut<") && !begin.contains(">down<"));
    assert!(begin.contains(">Election<"), "few arrows have names");
    let two = draw(&format!("{BULLY} --only 1,2"));
    assert_eq!(lines(&two, "font-weight=\"bold\">1</text>"), 1);
    assert!(!two.contains("font-weight=\"bold\">4</text>"));
    let raft = "suffrage-lab simulate raft --nodes 3 --initiator 2 --until 30";
    let (all, folded) = (draw(raft), draw(&format!("{raft} --fold-heartbeats --theme slide")));
    assert!(folded.contains("width=\"1280\"") && all.contains("width=\"760\""));
    assert!(lines(&folded, "L") * 3 < lines(&all, "L"), "heartbeats are left out");
}

#[test]
fn bad_pictures_are_refused() {
    let folder = folder("bad-svg");
    let file = folder.join("x.svg");
    for (flags, reason) in [
        ("--from 5 --to 3", "--to: must be after --from"),
        ("--only 9", "--only: there is no process 9"),
        ("--nodes 60", "--svg: draws at most 40 processes, and there are 60"),
        ("--runs 3", "--svg: draws a single run; remove --runs"),
    ] {
        let ran = run(&format!("suffrage-lab simulate bully {flags} --svg {}", file.display()));
        assert_eq!(ran.code, 2, "{flags}: {}", ran.err);
        assert!(ran.err.contains(reason), "{flags}: {}", ran.err);
    }
    let ran = run("suffrage-lab simulate bully --from 5");
    assert_eq!(ran.code, 2, "a part of no picture");
    std::fs::remove_dir_all(folder).unwrap();
}

/// The page of a run and the page of its trace hold the same run, and need nothing else.
#[test]
fn a_page_holds_the_run() {
    let folder = folder("page");
    let file = |name: &str| folder.join(name).display().to_string();
    succeed(&format!("{BULLY} --html {} --trace {}", file("run.html"), file("run.jsonl")));
    assert_eq!(succeed(&format!("suffrage-lab play {}", file("run.jsonl"))).trim(), file("run.html"));
    let page = std::fs::read_to_string(folder.join("run.html")).unwrap();
    assert_policy_allows_own(&page);
    for foreign in ["src=\"http", "href=\"http", "url(http", "@import", "import "] {
        assert!(
            !page.contains(&format!("\n{foreign}")) && !page.contains(&format!(" {foreign}\"")),
            "{foreign}"
        );
    }
    let itself = run(&format!("suffrage-lab play {0} --html {0}", file("run.jsonl")));
    assert_eq!(itself.code, 2);
    // No promise is broken: no page.
    succeed(&format!("suffrage-lab check bully --synchronous --ticks 4 --html {}", file("none.html")));
    assert!(!folder.join("none.html").exists());
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_gallery_has_every_algorithm_with_two_runs() {
    let folder = folder("gallery");
    let file = folder.join("gallery.html");
    assert_eq!(
        succeed(&format!("suffrage-lab gallery --html {}", file.display())).trim(),
        file.display().to_string()
    );
    let page = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    assert_policy_allows_own(&page);
    for contract in suffrage_algorithms::catalog::CONTRACTS {
        let name = contract.name;
        assert!(page.contains(&format!("<article id=\"{name}\"")), "{name}");
        for run in ["figure", "breaks"] {
            assert!(page.contains(&format!("data-run=\"{name}-{run}\">")), "{name} {run}");
            assert!(page.contains(&format!("data-shows=\"{name}-{run}\">")), "{name} {run}");
        }
        let own = page.split(&format!("Comparison of {name}\"")).nth(1).unwrap();
        let own = own.split("</table>").next().unwrap();
        assert_eq!(own.matches("scope=\"row\"").count(), 2, "{name}");
    }
}
