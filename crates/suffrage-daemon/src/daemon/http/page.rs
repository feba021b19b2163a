//! `GET /` and `GET /page/{file}`: the cluster's page.
//!
//! The files are the same at every node and contain nothing of the cluster. They therefore need no token. What the page
//! shows, the page asks for by the other endpoints, with the token that its user has typed.

use hyper::StatusCode;
use hyper::header::{self, HeaderValue};
use suffrage_web::{CLUSTER, CONTENT_SECURITY_POLICY, File};

use super::exchange::{Answer, Request, response};
use super::{App, Problem};

/// The document.
pub(super) async fn document(_: &App, _: Request) -> Answer {
    answer("")
}

/// A file of the page.
pub(super) async fn file(_: &App, request: Request) -> Answer {
    answer(&request.name)
}

/// A file of the page, or its document if the path is empty. Also of a node that is suspended.
pub(super) fn answer(path: &str) -> Answer {
    let path = if path.is_empty() { "cluster/index.html" } else { path };
    let Some(File { media_type, text, .. }) = CLUSTER.iter().find(|file| file.path == path) else {
        return Err(Problem::new(StatusCode::NOT_FOUND, "the cluster's page has no such file"));
    };
    let mut response = response(StatusCode::OK, media_type, (*text).into());
    let headers = [
        // A node of another version has other files.
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_served_with_a_strict_policy_and_nothing_else_is() {
        let page = answer("").unwrap();
        assert_eq!(page.headers()[header::CONTENT_SECURITY_POLICY], CONTENT_SECURITY_POLICY);
        assert_eq!(page.headers()[header::CONTENT_TYPE], "text/html; charset=utf-8");
        for other in ["cluster/../Cargo.toml", "playground/index.html", "src/lib.rs", "/etc/passwd"] {
            assert_eq!(answer(other).unwrap_err().status, StatusCode::NOT_FOUND, "{other}");
        }
    }
}
