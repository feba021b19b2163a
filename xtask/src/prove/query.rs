//! The obligations of a model, each as a question to a solver in plain SMT-LIB 2.
//!
//! A function of the state that an action changes gets a second name, `name!`, for its values after the action; whatever
//! the action does not change keeps the one name. A conjunct that speaks of nothing that an action changes is kept by
//! that action, and needs no question.

use std::collections::BTreeSet;

use super::model::{Action, Definition, Effect, Function, Model, Statement};
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

/// A question that is being written.
struct Question<'a> {
    model: &'a Model,
    world: World,
    text: String,
}

impl Model {
    /// Everything that is to be shown.
    pub(super) fn obligations(&self) -> Vec<Obligation> {
        let mut all = self.lemma_obligations();
        let possible = self.question(World::Small).initially();
        all.push(obligation(POSSIBLE, INITIAL, Expected::Sat, possible.end()));
        all.extend(self.invariants.iter().map(|conjunct| {
            let question = self.question(World::Unbounded).initially();
            obligation(INITIAL, &conjunct.name, Expected::Unsat, question.refute(&conjunct.formula))
        }));
        for action in &self.actions {
            // The action can be taken in some state that the invariant allows: nothing holds for want of an action.
            let possible = self.question(World::Small).before(action, &|_| true);
            all.push(obligation(&action.name, POSSIBLE, Expected::Sat, possible.end()));
            all.extend(self.invariants.iter().filter_map(|conjunct| self.is_kept(action, conjunct)));
        }
        all.extend(self.consequence_obligations());
        all.extend(self.possible.iter().map(|situation| {
            let question = self.question(World::Small).assuming(&self.invariants);
            obligation(
                POSSIBLE,
                &situation.name,
                Expected::Sat,
                question.assert(&situation.formula, "").end(),
            )
        }));
        all
    }

    /// What is to be shown of numbers alone.
    pub(super) fn lemma_obligations(&self) -> Vec<Obligation> {
        let lemmas = self.lemmas.iter();
        let text = |lemma: &Statement| format!("(assert (not {}))\n(check-sat)\n", lemma.formula);
        lemmas.map(|lemma| obligation(LEMMA, &lemma.name, Expected::Unsat, text(lemma))).collect()
    }

    /// What follows from the invariant: each from the invariant and those before.
    fn consequence_obligations(&self) -> Vec<Obligation> {
        let all = self.consequences.iter().map(|statement| (CONSEQUENCE, statement));
        let all = all.chain(self.safety.iter().map(|statement| (SAFETY, statement)));
        let make = |(place, (step, statement)): (usize, (&str, &Statement))| {
            let before = &self.consequences[..place.min(self.consequences.len())];
            let is_assumed = |name: &str| self.is_assumed(step, &statement.name, name);
            let question = self.question(World::Unbounded);
            let question =
                question.assuming_some(&self.invariants, &is_assumed).assuming_some(before, &is_assumed);
            obligation(step, &statement.name, Expected::Unsat, question.refute(&statement.formula))
        };
        all.enumerate().map(make).collect()
    }

    /// The action keeps the conjunct; none if it speaks of nothing that the action changes.
    pub(super) fn is_kept(&self, action: &Action, conjunct: &Statement) -> Option<Obligation> {
        let question = self.question(World::Unbounded).refute_after(action, conjunct)?;
        Some(obligation(&action.name, &conjunct.name, Expected::Unsat, question))
    }

    /// The action does not keep the conjunct: there is a small example.
    pub(super) fn is_broken(&self, action: &Action, conjunct: &Statement) -> Option<Obligation> {
        let question = self.question(World::Small).refute_after(action, conjunct)?;
        Some(obligation(&action.name, &conjunct.name, Expected::Sat, question))
    }

    /// The statement does not follow: there is a small example.
    pub(super) fn does_not_follow(&self, step: &str, statement: &Statement) -> Obligation {
        let question = self.question(World::Small).assuming(&self.invariants);
        obligation(step, &statement.name, Expected::Sat, question.refute(&statement.formula))
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

    /// The elements of a sort in a small world.
    fn elements(&self, sort: &str) -> Option<Vec<String>> {
        self.sorts.iter().find(|known| *known == sort)?;
        let size = self.sizes.get(sort).copied().unwrap_or(2);
        Some((1..=size).map(|place| format!("{sort}{place}")).collect())
    }

    /// A question about this world: sorts, functions, abbreviations and axioms.
    fn question(&self, world: World) -> Question<'_> {
        let mut question = Question { model: self, world, text: String::new() };
        for sort in &self.sorts {
            match (world, self.elements(sort)) {
                (World::Small, Some(elements)) => question.enumerate(sort, &elements),
                _ => question.line(&format!("(declare-sort {sort} 0)")),
            }
        }
        for (name, values) in &self.enums {
            question.enumerate(name, values);
        }
        for function in self.constants.iter().chain(&self.state) {
            question.declare(function);
        }
        for definition in &self.definitions {
            question.define(definition);
        }
        question.assuming(&self.axioms)
    }
}

impl Question<'_> {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn enumerate(&mut self, sort: &str, elements: &[String]) {
        let elements: Vec<String> = elements.iter().map(|element| format!("({element})")).collect();
        self.line(&format!("(declare-datatypes (({sort} 0)) (({})))", elements.join(" ")));
    }

    fn declare(&mut self, function: &Function) {
        let Function { name, arguments, value } = function;
        self.line(&format!("(declare-fun {name} {} {value})", Sexpr::List(arguments.clone())));
    }

    fn define(&mut self, definition: &Definition) {
        let Definition { name, parameters, value, body } = definition;
        self.line(&format!("(define-fun {name} {} {value} {body})", Sexpr::List(parameters.clone())));
    }

    /// The formula as it is asserted: in a small world there are no quantifiers.
    fn formula(&self, formula: &Sexpr) -> Sexpr {
        match self.world {
            World::Unbounded => formula.clone(),
            World::Small => formula.expand(&|sort| self.model.elements(sort)),
        }
    }

    fn assert(mut self, formula: &Sexpr, name: &str) -> Self {
        let formula = self.formula(formula);
        self.line(&format!("(assert {formula}) ; {name}"));
        self
    }

    fn assuming(self, statements: &[Statement]) -> Self {
        self.assuming_some(statements, &|_| true)
    }

    fn assuming_some(self, statements: &[Statement], is_assumed: &dyn Fn(&str) -> bool) -> Self {
        let assumed = statements.iter().filter(|statement| is_assumed(&statement.name));
        assumed.fold(self, |question, statement| question.assert(&statement.formula, &statement.name))
    }

    fn initially(self) -> Self {
        self.model.initially.iter().fold(self, |question, formula| question.assert(formula, INITIAL))
    }

    /// A state that the invariant allows and in which the action is possible.
    fn before(self, action: &Action, is_assumed: &dyn Fn(&str) -> bool) -> Self {
        let model = self.model;
        let mut question = match self.world {
            World::Small => self.assuming(&model.invariants),
            World::Unbounded => self
                .assuming_some(&model.invariants, is_assumed)
                .assuming_some(&model.consequences, is_assumed),
        };
        action.parameters.iter().for_each(|parameter| question.declare(parameter));
        action.guards.iter().fold(question, |question, (name, formula)| question.assert(formula, name))
    }

    fn end(mut self) -> String {
        self.line("(check-sat)");
        self.text
    }

    /// Asks for a case in which the formula is not true.
    fn refute(mut self, formula: &Sexpr) -> String {
        let formula = self.formula(formula);
        self.line(&format!("(assert (not {formula}))"));
        self.end()
    }

    /// Asks for a case in which the formula is not true after the action; none if the action cannot change that.
    fn refute_after(self, action: &Action, conjunct: &Statement) -> Option<String> {
        let (model, formula) = (self.model, &conjunct.formula);
        let changed = self.model.changed(action);
        let renamed = |name: &str| changed.contains(name).then(|| format!("{name}!"));
        if !changed.iter().any(|name| formula.mentions(name)) {
            return None;
        }
        let is_assumed = |name: &str| model.is_assumed(&action.name, &conjunct.name, name);
        let mut question = self.before(action, &is_assumed);
        for (name, effect) in &action.effects {
            let state = question.model.state_named(name).expect("checked when the model was read");
            question.define(&after_effect(state, effect));
        }
        for definition in &question.model.definitions {
            if changed.contains(&definition.name) {
                let (name, body) = (format!("{}!", definition.name), definition.body.rename(&renamed));
                question.define(&Definition { name, body, ..definition.clone() });
            }
        }
        Some(question.refute(&formula.rename(&renamed)))
    }
}

/// The state after an effect.
fn after_effect(state: &Function, effect: &Effect) -> Definition {
    let atom = |text: String| Sexpr::Atom(text);
    let call = |mut parts: Vec<Sexpr>, name: &str| {
        parts.insert(0, atom(name.to_string()));
        Sexpr::List(parts)
    };
    let (parameters, body) = match effect {
        Effect::All { parameters, value } => (parameters.clone(), value.clone()),
        Effect::Point { arguments, value } if arguments.is_empty() => (Vec::new(), value.clone()),
        Effect::Point { arguments, value } => {
            let names: Vec<Sexpr> = (0..arguments.len()).map(|place| atom(format!("x{place}"))).collect();
            let pairs = names.iter().zip(&state.arguments);
            let parameters = pairs.map(|(name, sort)| Sexpr::List(vec![name.clone(), sort.clone()]));
            let here =
                names.iter().zip(arguments).map(|(name, at)| call(vec![name.clone(), at.clone()], "="));
            let here = call(here.collect(), "and");
            let before = call(names.clone(), &state.name);
            (parameters.collect(), call(vec![here, value.clone(), before], "ite"))
        }
    };
    Definition { name: format!("{}!", state.name), parameters, value: state.value.clone(), body }
}

fn obligation(step: &str, about: &str, expected: Expected, question: String) -> Obligation {
    Obligation { step: step.to_string(), about: about.to_string(), expected, question }
}
