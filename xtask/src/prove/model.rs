//! A model: sorts, state, actions, the invariant, and deliberate bugs, read from the files of a folder in `proof/`.
//!
//! `proof/README.md` explains the forms.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::sexpr::{Sexpr, parse};

/// A function of the model: its name, the sorts of its arguments, the sort of its value.
#[derive(Clone, Debug)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) arguments: Vec<Sexpr>,
    pub(super) value: Sexpr,
}

/// An abbreviation.
#[derive(Clone, Debug)]
pub(super) struct Definition {
    pub(super) name: String,
    /// Names with sorts.
    pub(super) parameters: Vec<Sexpr>,
    pub(super) value: Sexpr,
    pub(super) body: Sexpr,
}

/// A formula with a name, and what it says in words.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    pub(super) name: String,
    pub(super) words: String,
    pub(super) formula: Sexpr,
}

/// What an action changes.
#[derive(Clone, Debug)]
pub(super) enum Effect {
    /// One value of a function of the state: for these arguments.
    Point { arguments: Vec<Sexpr>, value: Sexpr },
    /// All values: names with sorts of the arguments, and the new value.
    All { parameters: Vec<Sexpr>, value: Sexpr },
}

/// Functions in a file of the repository.
#[derive(Clone, Debug)]
pub(super) struct Code {
    pub(super) path: String,
    pub(super) functions: Vec<String>,
    /// The code does not exist yet.
    pub(super) planned: bool,
}

/// A step that the world can take.
#[derive(Clone, Debug)]
pub(super) struct Action {
    pub(super) name: String,
    pub(super) words: String,
    pub(super) code: Code,
    pub(super) parameters: Vec<Function>,
    /// When it is possible.
    pub(super) guards: Vec<(String, Sexpr)>,
    /// By the name of the state.
    pub(super) effects: BTreeMap<String, Effect>,
}

/// A change of a model: by an extension, or by a deliberate bug.
#[derive(Clone, Debug)]
enum Change {
    /// An action has one more parameter.
    Parameter { action: String, parameter: Function },
    /// An action has one more guard.
    Add { action: String, guard: String, formula: Sexpr },
    /// An action loses a guard.
    Drop { action: String, guard: String },
    /// An action has another guard in its place.
    Replace { action: String, guard: String, formula: Sexpr },
    /// An action has another effect.
    Set { action: String, state: String, effect: Effect },
    /// An action does not change this.
    Keep { action: String, state: String },
    /// An axiom is not taken for granted, or a conjunct is no part of the invariant.
    Without { name: String },
    /// A lemma says something else.
    Lemma { lemma: String, formula: Sexpr },
}

/// A deliberate bug, and the obligations that fail because of it: none if it is harmless.
#[derive(Clone, Debug)]
pub(super) struct Bug {
    pub(super) name: String,
    pub(super) words: String,
    changes: Vec<Change>,
    /// Step and conjunct.
    pub(super) breaks: Vec<(String, String)>,
}

/// A model.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pub(super) title: String,
    pub(super) sorts: Vec<String>,
    /// How many elements each sort has where a small world is searched for an example.
    pub(super) sizes: BTreeMap<String, usize>,
    pub(super) enums: Vec<(String, Vec<String>)>,
    pub(super) constants: Vec<Function>,
    pub(super) state: Vec<Function>,
    pub(super) definitions: Vec<Definition>,
    pub(super) axioms: Vec<Statement>,
    pub(super) initially: Vec<Sexpr>,
    pub(super) actions: Vec<Action>,
    pub(super) invariants: Vec<Statement>,
    /// What follows from the invariant, each from the invariant and those before.
    pub(super) consequences: Vec<Statement>,
    /// How many of the consequences, at the end, are those of the model that this one extends.
    inherited: usize,
    /// What is promised to users, and follows as well.
    pub(super) safety: Vec<Statement>,
    pub(super) lemmas: Vec<Statement>,
    /// Step and conjunct, and what suffices to show it. The solver is faster without the rest.
    pub(super) because: BTreeMap<(String, String), Vec<String>>,
    /// Situations that the invariant allows.
    pub(super) possible: Vec<Statement>,
    pub(super) bugs: Vec<Bug>,
    /// Deliberate bugs of the code that are not bugs of this model, and why.
    pub(super) outside: Vec<(String, String)>,
}

impl Model {
    /// Reads the model of a folder: its files in the order of their names.
    pub(super) fn load(folder: &Path) -> Result<Model, String> {
        let mut model = Model::default();
        model.read_folder(folder)?;
        model.check()?;
        Ok(model)
    }

    fn read_folder(&mut self, folder: &Path) -> Result<(), String> {
        let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "smt"));
        paths.sort();
        for path in paths {
            let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            for (line, form) in parse(&text).map_err(|reason| format!("{}: {reason}", path.display()))? {
                self.add(folder, &form).map_err(|reason| format!("{}:{line}: {reason}", path.display()))?;
            }
        }
        Ok(())
    }

    /// Begins with another model. It brings no bugs: an extension has its own.
    fn extend(&mut self, base: &Path) -> Result<(), String> {
        if !self.sorts.is_empty() || !self.state.is_empty() {
            return Err("(extends …) comes first".to_string());
        }
        let title = std::mem::take(&mut self.title);
        self.read_folder(base)?;
        self.title = title;
        self.bugs.clear();
        self.outside.clear();
        self.inherited = self.consequences.len();
        Ok(())
    }

    fn add(&mut self, folder: &Path, form: &Sexpr) -> Result<(), String> {
        let parts = form.list()?;
        let (kind, rest) = parts.split_first().ok_or("an empty form")?;
        match (kind.symbol()?, rest) {
            ("model", [words]) => self.title = words.text()?.to_string(),
            ("extends", [name]) => self.extend(&folder.with_file_name(name.symbol()?))?,
            ("extend", [action, changes @ ..]) => {
                for part in changes {
                    self.apply(&change(action.symbol()?, part)?)?;
                }
            }
            ("without", [name]) => self.apply(&Change::Without { name: name.symbol()?.to_string() })?,
            ("sort", [name, _words]) => self.sorts.push(name.symbol()?.to_string()),
            ("sizes", sizes) => {
                for size in sizes {
                    let [name, count] = size.list()? else { return Err(format!("`{size}`: (Sort count)")) };
                    let count = count.symbol()?.parse().map_err(|_| format!("`{count}` is no count"))?;
                    self.sizes.insert(name.symbol()?.to_string(), count);
                }
            }
            ("enum", [name, values @ ..]) => {
                let values = values.iter().map(|value| Ok(value.symbol()?.to_string()));
                self.enums.push((name.symbol()?.to_string(), values.collect::<Result<_, String>>()?));
            }
            ("constant", [head, value, _words]) => self.constants.push(function(head, value)?),
            ("state", [head, value, _words]) => self.state.push(function(head, value)?),
            ("define", [head, value, body]) => {
                let (name, parameters) = head.list()?.split_first().ok_or("a definition without a name")?;
                self.definitions.push(Definition {
                    name: name.symbol()?.to_string(),
                    parameters: parameters.to_vec(),
                    value: value.clone(),
                    body: body.clone(),
                });
            }
            ("axiom", rest) => self.axioms.push(statement(rest)?),
            ("initially", [_words, formula]) => self.initially.push(formula.clone()),
            ("action", rest) => self.actions.push(action(rest)?),
            ("invariant", rest) => self.invariants.push(statement(rest)?),
            // Those of an extension come first: those of its base may need them.
            ("consequence", rest) => {
                let place = self.consequences.len() - self.inherited;
                self.consequences.insert(place, statement(rest)?);
            }
            ("safety", rest) => self.safety.push(statement(rest)?),
            ("lemma", rest) => self.lemmas.push(statement(rest)?),
            ("because", [step, about, names @ ..]) => {
                let names = names.iter().map(|name| Ok(name.symbol()?.to_string()));
                let key = (step.symbol()?.to_string(), about.symbol()?.to_string());
                self.because.insert(key, names.collect::<Result<_, String>>()?);
            }
            ("possible", rest) => self.possible.push(statement(rest)?),
            ("bug", rest) => self.bugs.push(bug(rest)?),
            ("outside", [name, words]) => {
                self.outside.push((name.symbol()?.to_string(), words.text()?.to_string()));
            }
            (other, _) => return Err(format!("`{other}` is no form of a model, or has other parts")),
        }
        Ok(())
    }

    /// Checks what a solver would not tell: names that occur twice, effects on what is no state.
    fn check(&self) -> Result<(), String> {
        let mut names: Vec<&str> = self.functions().map(|function| function.name.as_str()).collect();
        names.extend(self.definitions.iter().map(|definition| definition.name.as_str()));
        names.extend(self.enums.iter().flat_map(|(_, values)| values).map(String::as_str));
        no_doubles(&names)?;
        let statements =
            [&self.invariants, &self.consequences, &self.safety, &self.lemmas, &self.possible].into_iter();
        no_doubles(&statements.flatten().map(|statement| statement.name.as_str()).collect::<Vec<_>>())?;
        no_doubles(&self.actions.iter().map(|action| action.name.as_str()).collect::<Vec<_>>())?;
        no_doubles(&self.bugs.iter().map(|bug| bug.name.as_str()).collect::<Vec<_>>())?;
        for action in &self.actions {
            if let Some(state) = action.effects.keys().find(|name| self.state_named(name).is_none()) {
                return Err(format!("action {}: `{state}` is no state", action.name));
            }
            let parameters = action.parameters.iter().map(|parameter| parameter.name.as_str());
            if let Some(name) = parameters.clone().find(|name| names.contains(name)) {
                return Err(format!("action {}: the parameter `{name}` is a name of the model", action.name));
            }
            no_doubles(&parameters.collect::<Vec<_>>())?;
        }
        for ((step, about), names) in &self.because {
            let known =
                |name: &String| self.invariants.iter().chain(&self.consequences).any(|s| s.name == *name);
            if let Some(name) = names.iter().chain([about]).find(|name| !known(name)) {
                return Err(format!("(because {step} {about} …): there is no conjunct `{name}`"));
            }
        }
        for bug in &self.bugs {
            self.with_bug(bug)?;
        }
        Ok(())
    }

    /// Whether the statement of this name may be assumed where `about` is to be shown for a step.
    pub(super) fn is_assumed(&self, step: &str, about: &str, name: &str) -> bool {
        let because = self.because.get(&(step.to_string(), about.to_string()));
        because.is_none_or(|names| name == about || names.iter().any(|known| known == name))
    }

    fn functions(&self) -> impl Iterator<Item = &Function> {
        self.constants.iter().chain(&self.state)
    }

    /// A function of the state.
    pub(super) fn state_named(&self, name: &str) -> Option<&Function> {
        self.state.iter().find(|function| function.name == name)
    }

    /// The action of this name.
    pub(super) fn action(&self, name: &str) -> Option<&Action> {
        self.actions.iter().find(|action| action.name == name)
    }

    /// The model with a deliberate bug.
    pub(super) fn with_bug(&self, bug: &Bug) -> Result<Model, String> {
        let mut model = self.clone();
        for change in &bug.changes {
            model.apply(change).map_err(|reason| format!("bug {}: {reason}", bug.name))?;
        }
        Ok(model)
    }

    fn apply(&mut self, change: &Change) -> Result<(), String> {
        match change {
            Change::Parameter { action, parameter } => {
                self.action_mut(action)?.parameters.push(parameter.clone());
            }
            Change::Add { action, guard, formula } => {
                self.action_mut(action)?.guards.push((guard.clone(), formula.clone()));
            }
            Change::Drop { action, guard } => {
                let guards = &mut self.action_mut(action)?.guards;
                let place = guards.iter().position(|(name, _)| name == guard);
                guards.remove(place.ok_or_else(|| format!("{action} has no guard `{guard}`"))?);
            }
            Change::Replace { action, guard, formula } => {
                let guards = &mut self.action_mut(action)?.guards;
                let found = guards.iter_mut().find(|(name, _)| name == guard);
                found.ok_or_else(|| format!("{action} has no guard `{guard}`"))?.1 = formula.clone();
            }
            Change::Set { action, state, effect } => {
                self.state_named(state).ok_or_else(|| format!("`{state}` is no state"))?;
                self.action_mut(action)?.effects.insert(state.clone(), effect.clone());
            }
            Change::Keep { action, state } => {
                let removed = self.action_mut(action)?.effects.remove(state);
                removed.ok_or_else(|| format!("{action} does not change `{state}`"))?;
            }
            Change::Without { name } => {
                let is_other = |known: &Statement| known.name != *name;
                let count = self.axioms.len() + self.invariants.len();
                self.axioms.retain(is_other);
                self.invariants.retain(is_other);
                if self.axioms.len() + self.invariants.len() == count {
                    return Err(format!("there is no axiom or conjunct `{name}`"));
                }
            }
            Change::Lemma { lemma, formula } => {
                let found = self.lemmas.iter_mut().find(|known| known.name == *lemma);
                found.ok_or_else(|| format!("there is no lemma `{lemma}`"))?.formula = formula.clone();
            }
        }
        Ok(())
    }

    fn action_mut(&mut self, name: &str) -> Result<&mut Action, String> {
        let found = self.actions.iter_mut().find(|action| action.name == name);
        found.ok_or_else(|| format!("there is no action `{name}`"))
    }
}

impl Bug {
    /// The actions that the bug changes.
    pub(super) fn actions(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.changes.iter().filter_map(Change::action).collect();
        names.dedup();
        names
    }

    /// Whether the bug is about what majorities are, or about a lemma.
    pub(super) fn is_about(&self, what: About) -> bool {
        self.changes.iter().any(|change| match change {
            Change::Without { .. } => what == About::Axioms,
            Change::Lemma { .. } => what == About::Lemmas,
            _ => false,
        })
    }
}

/// What else than actions a bug can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// What is taken for granted.
    Axioms,
    /// What is proven of numbers alone.
    Lemmas,
}

impl Change {
    fn action(&self) -> Option<&str> {
        match self {
            Change::Parameter { action, .. }
            | Change::Add { action, .. }
            | Change::Drop { action, .. }
            | Change::Replace { action, .. }
            | Change::Set { action, .. }
            | Change::Keep { action, .. } => Some(action),
            Change::Without { .. } | Change::Lemma { .. } => None,
        }
    }
}

fn no_doubles(names: &[&str]) -> Result<(), String> {
    let mut sorted = names.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("two things are called `{}`", pair[0])),
        None => Ok(()),
    }
}

/// `name`, or `(name Sort …)`.
fn function(head: &Sexpr, value: &Sexpr) -> Result<Function, String> {
    let (name, arguments) = match head {
        Sexpr::List(parts) => {
            let (name, arguments) = parts.split_first().ok_or("a function without a name")?;
            (name.symbol()?, arguments.to_vec())
        }
        other => (other.symbol()?, Vec::new()),
    };
    Ok(Function { name: name.to_string(), arguments, value: value.clone() })
}

fn statement(parts: &[Sexpr]) -> Result<Statement, String> {
    let [name, words, formula] = parts else { return Err("expected: name \"words\" formula".to_string()) };
    let (name, words) = (name.symbol()?.to_string(), words.text()?.to_string());
    Ok(Statement { name, words, formula: formula.clone() })
}

fn action(parts: &[Sexpr]) -> Result<Action, String> {
    let [name, words, code, parameters, guards, effects @ ..] = parts else {
        return Err("expected: name \"words\" (code …) (for …) (when …) (set …)…".to_string());
    };
    let parameters = tagged(parameters, &["for"])?.1.iter().map(parameter).collect::<Result<_, _>>()?;
    let guards = tagged(guards, &["when"])?.1.iter().map(guard).collect::<Result<_, _>>()?;
    let (name, words) = (name.symbol()?.to_string(), words.text()?.to_string());
    let mut action =
        Action { name, words, code: self::code(code)?, parameters, guards, effects: BTreeMap::new() };
    for part in effects {
        let (state, effect) = self::effect(part)?;
        if action.effects.insert(state.clone(), effect).is_some() {
            return Err(format!("`{state}` is set twice"));
        }
    }
    Ok(action)
}

/// `(tag part …)` with one of these tags.
fn tagged<'a>(form: &'a Sexpr, tags: &[&str]) -> Result<(&'a str, &'a [Sexpr]), String> {
    let (tag, rest) = form.list()?.split_first().ok_or("an empty list")?;
    let tag = tag.symbol()?;
    match tags.contains(&tag) {
        true => Ok((tag, rest)),
        false => Err(format!("expected ({} …) in place of `{form}`", tags.join(" …) or ("))),
    }
}

fn code(form: &Sexpr) -> Result<Code, String> {
    let (tag, parts) = tagged(form, &["code", "planned"])?;
    let [path, functions @ ..] = parts else { return Err(format!("`{form}` names no file")) };
    let functions = functions.iter().map(|name| Ok(name.text()?.to_string()));
    let functions: Vec<String> = functions.collect::<Result<_, String>>()?;
    if functions.is_empty() {
        return Err(format!("`{form}` names no function"));
    }
    Ok(Code { path: path.text()?.to_string(), functions, planned: tag == "planned" })
}

/// `(name Sort)`, or `(name (Sort …) Sort)` for a function.
fn parameter(form: &Sexpr) -> Result<Function, String> {
    match form.list()? {
        [name, value] => function(name, value),
        [name, arguments, value] => Ok(Function {
            name: name.symbol()?.to_string(),
            arguments: arguments.list()?.to_vec(),
            value: value.clone(),
        }),
        _ => Err(format!("`{form}` is no parameter")),
    }
}

fn guard(form: &Sexpr) -> Result<(String, Sexpr), String> {
    let [name, formula] = form.list()? else { return Err(format!("`{form}`: expected (name formula)")) };
    Ok((name.symbol()?.to_string(), formula.clone()))
}

/// `(set (state argument …) value)`, or `(set-all (state (name Sort) …) value)`.
fn effect(form: &Sexpr) -> Result<(String, Effect), String> {
    let (tag, parts) = tagged(form, &["set", "set-all"])?;
    let [head, value] = parts else { return Err(format!("`{form}`: expected (set (state …) value)")) };
    let Function { name, arguments, .. } = function(head, value)?;
    let value = value.clone();
    Ok(match tag {
        "set" => (name, Effect::Point { arguments, value }),
        _ => (name, Effect::All { parameters: arguments, value }),
    })
}

fn bug(parts: &[Sexpr]) -> Result<Bug, String> {
    let [name, words, rest @ ..] = parts else { return Err("expected: name \"words\" …".to_string()) };
    let (name, words) = (name.symbol()?.to_string(), words.text()?.to_string());
    let mut bug = Bug { name, words, changes: Vec::new(), breaks: Vec::new() };
    let mut harmless = false;
    for part in rest {
        match tagged(part, &["in", "without", "lemma", "breaks", "harmless"])? {
            ("in", [action, changes @ ..]) => {
                for part in changes {
                    bug.changes.push(change(action.symbol()?, part)?);
                }
            }
            ("without", [axiom]) => {
                bug.changes.push(Change::Without { name: axiom.symbol()?.to_string() });
            }
            ("lemma", [lemma, formula]) => {
                let (lemma, formula) = (lemma.symbol()?.to_string(), formula.clone());
                bug.changes.push(Change::Lemma { lemma, formula });
            }
            ("breaks", [step, conjuncts @ ..]) => {
                for conjunct in conjuncts {
                    bug.breaks.push((step.symbol()?.to_string(), conjunct.symbol()?.to_string()));
                }
            }
            ("harmless", []) => harmless = true,
            _ => return Err(format!("`{part}` has other parts than it should")),
        }
    }
    match (bug.changes.is_empty(), bug.breaks.is_empty() == harmless) {
        (true, _) => Err(format!("bug {} changes nothing", bug.name)),
        (_, false) => Err(format!("bug {} must either break something or be (harmless)", bug.name)),
        _ => Ok(bug),
    }
}

fn change(action: &str, form: &Sexpr) -> Result<Change, String> {
    let action = action.to_string();
    match tagged(form, &["for", "add", "drop", "when", "set", "set-all", "keep"])? {
        ("for", [parameter]) => Ok(Change::Parameter { action, parameter: self::parameter(parameter)? }),
        ("add", [guard]) => {
            let (guard, formula) = self::guard(guard)?;
            Ok(Change::Add { action, guard, formula })
        }
        ("drop", [guard]) => Ok(Change::Drop { action, guard: guard.symbol()?.to_string() }),
        ("when", [guard]) => {
            let (guard, formula) = self::guard(guard)?;
            Ok(Change::Replace { action, guard, formula })
        }
        ("set" | "set-all", _) => {
            let (state, effect) = effect(form)?;
            Ok(Change::Set { action, state, effect })
        }
        ("keep", [state]) => Ok(Change::Keep { action, state: state.symbol()?.to_string() }),
        _ => Err(format!("`{form}` has other parts than it should")),
    }
}
