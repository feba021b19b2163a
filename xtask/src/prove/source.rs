//! The code that a model stands for: the functions it names must exist.

use std::fs;
use std::path::Path;

use suffrage_lease::Bug;

use super::model::Model;

/// What the model names and the source does not have. A deliberate bug of the source must be one of the model, or the
/// model must say why it is not.
pub(super) fn complaints(root: &Path, model: &Model, with_bugs: bool) -> Vec<String> {
    let mut complaints = Vec::new();
    for action in model.actions.iter().filter(|action| !action.code.planned) {
        let text = fs::read_to_string(root.join(&action.code.path)).unwrap_or_default();
        let gone = action.code.functions.iter().filter(|name| !has_function(&text, name));
        complaints.extend(gone.map(|name| {
            let (path, action) = (&action.code.path, &action.name);
            format!("action {action}: there is no function `{name}` in {path}; the model is out of step with the code")
        }));
    }
    if with_bugs {
        let known = |name: &str| {
            model.bugs.iter().any(|bug| bug.name == name)
                || model.outside.iter().any(|(outside, _)| outside == name)
        };
        let unknown = Bug::ALL.iter().filter(|(name, _)| !known(name));
        complaints.extend(
            unknown.map(|(name, _)| format!("bug {name} of the code is neither (bug …) nor (outside …)")),
        );
        let gone = model.outside.iter().filter(|(name, _)| Bug::ALL.iter().all(|(known, _)| known != name));
        complaints.extend(gone.map(|(name, _)| format!("(outside {name} …): the code has no such bug")));
    }
    complaints
}

/// Whether the code defines a function of this name.
fn has_function(code: &str, name: &str) -> bool {
    let ends = |rest: &str| rest.starts_with(['(', '<']);
    code.split("fn ").skip(1).any(|rest| rest.strip_prefix(name).is_some_and(ends))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_their_whole_names() {
        let code = "impl X { pub fn wake_up(&self) {} fn of<T>(t: T) {} } // wake(";
        assert!(has_function(code, "wake_up") && has_function(code, "of"));
        assert!(!has_function(code, "wake") && !has_function(code, "up") && !has_function(code, "f"));
    }
}
