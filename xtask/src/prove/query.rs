//! The obligations of a model, each as a question to a solver in plain SMT-LIB 2.
//!
//! A function of the state that an action changes gets a second name, `name!`, for its values after the action; whatever
//! the action does not change keeps the one name. A conjunct that speaks of nothing that an action changes is kept by
//! that action, and needs no question.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::model::{Action, Definition, Effect, Model, Statement};
use super::sexpr::Sexpr;

/// What a solver is asked, and the answer that is expected.
#[derive(Clone, Debug)]
pub(super) struct Obligation {
    /// An action, or `initial`, `consequence`, `safety`, `lemma`, `possible`.
    pub(super) step: String,
    /// The conjunct, or what else the question is about.
    pub(super) about: String,
    pub(super) expected: Expected,
    /// In SMT-LIB 2.
    pub(super) question: String,
}

/// The answer that is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// The negation of what is to be shown is contradictory.
    Unsat,
    /// There is an example.
    Sat,
}

/// The world that a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum World {
    /// With any number of voters, candidates and so on.
    Unbounded,
    /// With a few of each, to find an example.
    Small,
}

/// The names of steps that are not actions.
pub(super) const INITIAL: &str = "initial";
pub(super) const CONSEQUENCE: &str = "consequence";
pub(super) const SAFETY: &str = "safety";
pub(super) const LEMMA: &str = "lemma";
pub(super) const POSSIBLE: &str = "possible";

impl Model {
    /// Everything that is to be shown.
    pub(super) fn obligations(&self) -> Vec<Obligation> {
        let mut all = self.lemma_obligations();
        all.push(self.initial_is_possible());
        all.extend(self.invariants.iter().map(|conjunct| self.holds_initially(conjunct)));
        for action in &self.actions {
            all.push(self.is_possible(action));
            all.extend(self.invariants.iter().filter_map(|conjunct| self.is_kept(action, conjunct)));
        }
        all.extend(self.consequence_obligations());
        all.extend(self.possible.iter().map(|situation| self.is_allowed(situation)));
        all
    }

    pub(super) fn lemma_obligations(&self) -> Vec<Obligation> {
        let question = |lemma: &Statement| format!("(assert (not {}))\n(check-sat)\n", lemma.formula);
        let lemmas = self.lemmas.iter();
        lemmas.map(|lemma| obligation(LEMMA, &lemma.name, Expected::Unsat, question(lemma))).collect()
    }

    /// What follows from the invariant: each from the invariant and those before.
    pub(super) fn consequence_obligations(&self) -> Vec<Obligation> {
        let all = self.consequences.iter().map(|statement| (CONSEQUENCE, statement));
        let all = all.chain(self.safety.iter().map(|statement| (SAFETY, statement)));
        let make = |(place, (step, statement)): (usize, (&str, &Statement))| {
            let mut text = self.preamble(World::Unbounded);
            assert_all(&mut text, &self.invariants);
            assert_all(&mut text, &self.consequences[..place.min(self.consequences.len())]);
            let _ = writeln!(text, "(assert (not {}))\n(check-sat)", statement.formula);
            obligation(step, &statement.name, Expected::Unsat, text)
        };
        all.enumerate().map(make).collect()
    }

    fn initial_is_possible(&self) -> Obligation {
        let text = self.preamble(World::Small) + &self.initial_state() + "(check-sat)\n";
        obligation(POSSIBLE, INITIAL, Expected::Sat, text)
    }

    fn holds_initially(&self, conjunct: &Statement) -> Obligation {
        let mut text = self.preamble(World::Unbounded) + &self.initial_state();
        let _ = writeln!(text, "(assert (not {}))\n(check-sat)", conjunct.formula);
        obligation(INITIAL, &conjunct.name, Expected::Unsat, text)
    }

    fn is_allowed(&self, situation: &Statement) -> Obligation {
        let mut text = self.preamble(World::Small);
        assert_all(&mut text, &self.invariants);
        let _ = writeln!(text, "(assert {})\n(check-sat)", situation.formula);
        obligation(POSSIBLE, &situation.name, Expected::Sat, text)
    }

    /// The action can be taken in some state that the invariant allows: nothing holds for want of an action.
    fn is_possible(&self, action: &Action) -> Obligation {
        let text = self.before(action, World::Small) + "(check-sat)\n";
        obligation(&action.name, POSSIBLE, Expected::Sat, text)
    }

    /// The action keeps the conjunct; none if it speaks of nothing that the action changes.
    pub(super) fn is_kept(&self, action: &Action, conjunct: &Statement) -> Option<Obligation> {
        let question = self.after(action, conjunct, World::Unbounded)?;
        Some(obligation(&action.name, &conjunct.name, Expected::Unsat, question))
    }

    /// The obligation fails: there is a small example. For deliberate bugs.
    pub(super) fn is_broken(&self, action: &Action, conjunct: &Statement) -> Option<Obligation> {
        let question = self.after(action, conjunct, World::Small)?;
        Some(obligation(&action.name, &conjunct.name, Expected::Sat, question))
    }

    /// The statement does not follow: there is a small example.
    pub(super) fn does_not_follow(&self, step: &str, statement: &Statement) -> Obligation {
        let mut text = self.preamble(World::Small);
        assert_all(&mut text, &self.invariants);
        let _ = writeln!(text, "(assert (not {}))\n(check-sat)", statement.formula);
        obligation(step, &statement.name, Expected::Sat, text)
    }

    /// A state before the action, which is possible.
    fn before(&self, action: &Action, world: World) -> String {
        let mut text = self.preamble(world);
        assert_all(&mut text, &self.invariants);
        if world == World::Unbounded {
            assert_all(&mut text, &self.consequences);
        }
        for parameter in &action.parameters {
            declare(&mut text, &parameter.name, &parameter.arguments, &parameter.value);
        }
        for (name, formula) in &action.guards {
            let _ = writeln!(text, "(assert {formula}) ; {name}");
        }
        text
    }

    fn after(&self, action: &Action, conjunct: &Statement, world: World) -> Option<String> {
        let changed = self.changed(action);
        let renamed = |name: &str| changed.contains(name).then(|| format!("{name}!"));
        if !changed.iter().any(|name| conjunct.formula.mentions(name)) {
            return None;
        }
        let mut text = self.before(action, world);
        for (name, effect) in &action.effects {
            let function = self.state_named(name).expect("checked when the model was read");
            let names = || (0..function.arguments.len()).map(|place| format!("x{place}"));
            let (parameters, body) = match effect {
                Effect::All { parameters, value } => {
                    (parameters.iter().map(Sexpr::to_string).collect::<Vec<_>>().join(" "), value.to_string())
                }
                Effect::Point { arguments, value } if arguments.is_empty() => {
                    (String::new(), value.to_string())
                }
                Effect::Point { arguments, value } => {
                    let sorts = function.arguments.iter();
                    let parameters: Vec<String> =
                        names().zip(sorts).map(|(name, sort)| format!("({name} {sort})")).collect();
                    let here: Vec<String> =
                        names().zip(arguments).map(|(name, at)| format!("(= {name} {at})")).collect();
                    let unchanged = format!("({name} {})", names().collect::<Vec<_>>().join(" "));
                    (parameters.join(" "), format!("(ite (and {}) {value} {unchanged})", here.join(" ")))
                }
            };
            let _ = writeln!(text, "(define-fun {name}! ({parameters}) {} {body})", function.value);
        }
        for definition in self.definitions.iter().filter(|definition| changed.contains(&definition.name)) {
            let after = Definition {
                name: format!("{}!", definition.name),
                body: definition.body.rename(&renamed),
                ..definition.clone()
            };
            define(&mut text, &after);
        }
        let _ = writeln!(text, "(assert (not {}))\n(check-sat)", conjunct.formula.rename(&renamed));
        Some(text)
    }

    /// What the action changes: state, and abbreviations of what speaks of it.
    fn changed(&self, action: &Action) -> BTreeSet<String> {
        let mut changed: BTreeSet<String> = action.effects.keys().cloned().collect();
        for definition in &self.definitions {
            if changed.iter().any(|name| definition.body.mentions(name)) {
                changed.insert(definition.name.clone());
            }
        }
        changed
    }

    /// Sorts, functions, abbreviations and axioms.
    fn preamble(&self, world: World) -> String {
        let mut text = String::new();
        for sort in &self.sorts {
            let _ = match world {
                World::Unbounded => writeln!(text, "(declare-sort {sort} 0)"),
                World::Small => {
                    let size = self.sizes.get(sort).copied().unwrap_or(2);
                    let elements = (1..=size).map(|place| format!("({sort}{place})"));
                    let elements: Vec<String> = elements.collect();
                    writeln!(text, "(declare-datatypes (({sort} 0)) (({})))", elements.join(" "))
                }
            };
        }
        for (name, values) in &self.enums {
            let values: Vec<String> = values.iter().map(|value| format!("({value})")).collect();
            let _ = writeln!(text, "(declare-datatypes (({name} 0)) (({})))", values.join(" "));
        }
        for function in self.constants.iter().chain(&self.state) {
            declare(&mut text, &function.name, &function.arguments, &function.value);
        }
        for definition in &self.definitions {
            define(&mut text, definition);
        }
        assert_all(&mut text, &self.axioms);
        text
    }

    fn initial_state(&self) -> String {
        self.initially.iter().map(|formula| format!("(assert {formula})\n")).collect()
    }
}

fn obligation(step: &str, about: &str, expected: Expected, question: String) -> Obligation {
    Obligation { step: step.to_string(), about: about.to_string(), expected, question }
}

fn declare(text: &mut String, name: &str, arguments: &[Sexpr], value: &Sexpr) {
    let _ = writeln!(text, "(declare-fun {name} {} {value})", Sexpr::List(arguments.to_vec()));
}

fn define(text: &mut String, definition: &Definition) {
    let Definition { name, parameters, value, body } = definition;
    let _ = writeln!(text, "(define-fun {name} {} {value} {body})", Sexpr::List(parameters.clone()));
}

fn assert_all(text: &mut String, statements: &[Statement]) {
    for Statement { name, formula, .. } in statements {
        let _ = writeln!(text, "(assert {formula}) ; {name}");
    }
}
