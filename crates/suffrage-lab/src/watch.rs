//! What those who watch a run have in common.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use suffrage_core::Time;
use suffrage_sim::{Fault, Observer, Scenario, TraceEvent};

use suffrage_cli::text;

/// What to call the cuts of a run as they come and go: the simulator only says that there was one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cuts {
    cuts: VecDeque<String>,
    /// With the beginning of the cut.
    heals: VecDeque<(Time, String)>,
}

impl Cuts {
    /// The cuts of a scenario, named by their groups.
    pub(crate) fn of(scenario: &Scenario) -> Cuts {
        let cut = |(at, fault): &(Time, Fault)| {
            let Fault::Cut(name, cut) = fault else { return None };
            let (sides, one_way) = cut.groups();
            let ids = |side: &Vec<usize>| text::ids(side.iter().map(|&slot| scenario.roster.id(slot)));
            let groups: Vec<String> = sides.iter().map(ids).collect();
            let healed = scenario.plan.iter().find(|(_, fault)| *fault == Fault::Heal(*name));
            let groups = groups.join(if one_way { ", unheard by " } else { " | " });
            Some((groups, *at, healed.map(|(to, _)| *to)))
        };
        Cuts::new(scenario.plan.iter().filter_map(cut).collect())
    }

    /// From each cut's name, its beginning and its end, in the order they were planned.
    fn new(mut cuts: Vec<(String, Time, Option<Time>)>) -> Cuts {
        // Both from the planned order, which decides among equal times.
        let mut heals: Vec<(Time, (Time, String))> =
            cuts.iter().filter_map(|(name, from, to)| Some(((*to)?, (*from, name.clone())))).collect();
        heals.sort_by_key(|&(to, _)| to);
        cuts.sort_by_key(|&(_, from, _)| from);
        let names = cuts.into_iter().map(|(name, ..)| name).collect();
        Cuts { cuts: names, heals: heals.into_iter().map(|(_, name)| name).collect() }
    }

    /// The name of the cut that has just been made.
    pub(crate) fn cut(&mut self) -> String {
        self.cuts.pop_front().unwrap_or_default()
    }

    /// The name of the cut that has just been healed.
    pub(crate) fn heal(&mut self) -> String {
        self.heals.pop_front().unwrap_or_default().1
    }

    /// All cuts have ended; only those that begin at this very moment come after it.
    pub(crate) fn heal_all(&mut self, at: Time) {
        self.heals.retain(|(from, _)| *from >= at);
    }
}

/// An observer that can be asked afterwards: the world keeps one handle, its maker another.
pub(crate) struct Shared<T>(Rc<RefCell<T>>);

impl<T> Shared<T> {
    pub(crate) fn new(observer: T) -> Shared<T> {
        Shared(Rc::new(RefCell::new(observer)))
    }

    pub(crate) fn handle(&self) -> Shared<T> {
        Shared(Rc::clone(&self.0))
    }

    /// The observer, once the world is gone.
    pub(crate) fn into_inner(self) -> T {
        Rc::into_inner(self.0).expect("the world has dropped its handle").into_inner()
    }
}

impl<T: Observer> Observer for Shared<T> {
    fn observe(&mut self, at: Time, event: TraceEvent<'_>) {
        self.0.borrow_mut().observe(at, event);
    }
}

/// Several observers at once.
#[derive(Default)]
pub(crate) struct Several(pub(crate) Vec<Box<dyn Observer>>);

impl Observer for Several {
    fn observe(&mut self, at: Time, event: TraceEvent<'_>) {
        self.0.iter_mut().for_each(|observer| observer.observe(at, event));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_are_named_in_order_of_time() {
        let time = |text: &str| text.parse().unwrap();
        let mut cuts = Cuts::new(vec![
            ("late".into(), time("5"), Some(time("6"))),
            ("early".into(), time("1"), Some(time("9"))),
            ("lasting".into(), time("7"), None),
            ("second".into(), time("8"), Some(time("10"))),
            ("first".into(), time("7.5"), Some(time("10"))),
        ]);
        assert_eq!([(); 5].map(|()| cuts.cut()), ["early", "late", "lasting", "first", "second"]);
        let mut healed_all = cuts.clone();
        let healed = [(); 4].map(|()| cuts.heal());
        assert_eq!(healed, ["late", "early", "second", "first"], "at the same time, as planned");
        healed_all.heal_all(time("8"));
        assert_eq!(
            [healed_all.heal(), healed_all.heal()],
            ["second", ""],
            "a cut that ended with all others is not healed later"
        );
    }
}
