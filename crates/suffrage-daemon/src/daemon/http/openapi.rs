//! `GET /openapi.json`: the description of all endpoints.

use hyper::StatusCode;

use super::App;
use super::exchange::{Answer, Request, Response, response};

/// OpenAPI 3.1.
const DOCUMENT: &str = include_str!("openapi.json");

pub(super) async fn document(_: &App, _: Request) -> Answer {
    Ok(answer())
}

/// The description, also of a node that is suspended.
pub(super) fn answer() -> Response {
    response(StatusCode::OK, "application/json", DOCUMENT.into())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    #[test]
    fn the_description_has_every_path_and_method_of_the_router_and_no_other() {
        let document: Value = serde_json::from_str(DOCUMENT).unwrap();
        assert_eq!(document["openapi"], "3.1.0");
        let described: BTreeSet<(String, String)> = document["paths"]
            .as_object()
            .unwrap()
            .iter()
            .flat_map(|(path, item)| {
                let methods = item.as_object().unwrap().keys().filter(|key| *key != "parameters");
                methods.map(move |method| (path.clone(), method.clone()))
            })
            .collect();
        let methods =
            |route: &'static super::super::Route<App>| route.methods.iter().map(|(method, _)| method);
        let served: BTreeSet<(String, String)> = super::super::ROUTES
            .iter()
            .flat_map(|route| {
                methods(route).map(|method| (route.path.to_string(), method.as_str().to_lowercase()))
            })
            .collect();
        assert_eq!(described, served);
    }

    /// Every `$ref` resolves, and every operation has a summary and its responses.
    #[test]
    fn the_description_is_complete() {
        let document: Value = serde_json::from_str(DOCUMENT).unwrap();
        fn visit(document: &Value, value: &Value) {
            match value {
                Value::Object(members) => {
                    if let Some(Value::String(target)) = members.get("$ref") {
                        let found = document.pointer(target.strip_prefix('#').unwrap());
                        assert!(found.is_some(), "{target} does not resolve");
                    }
                    members.values().for_each(|member| visit(document, member));
                }
                Value::Array(members) => members.iter().for_each(|member| visit(document, member)),
                _ => {}
            }
        }
        visit(&document, &document);
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in
                item.as_object().unwrap().iter().filter(|(key, _)| *key != "parameters")
            {
                assert!(operation["summary"].is_string(), "{method} {path}");
                let open = operation["security"].as_array().is_some_and(Vec::is_empty);
                let (closed, post) = (["401", "421", "503"], ["400", "409", "413", "415", "422"]);
                let mut codes = vec!["200"];
                codes.extend(closed.iter().filter(|_| !open));
                codes.extend(post.iter().filter(|_| method == "post"));
                for code in codes {
                    assert!(operation["responses"][code].is_object(), "{method} {path}: {code}");
                }
            }
        }
    }
}
