//! Observers of a run: names of network cuts, shared observers, several observers at once.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use suffrage_core::Time;
use suffrage_sim::{Fault, Observer, Scenario, TraceEvent};

use suffrage_cli::text;

/// The names of the network cuts of a run, in the order in which they start and end. The events of the simulator do
/// not name the cut.
#[derive(Clone, Debug, Default)]
pub(crate) struct CutNames {
    cuts: VecDeque<String>,
    /// The start of each cut and its name, in the order in which the cuts end.
    heals: VecDeque<(Time, String)>,
}

impl CutNames {
    /// The cuts of a scenario, named by their groups.
    pub(crate) fn of(scenario: &Scenario) -> CutNames {
        let cut = |(at, fault): &(Time, Fault)| {
            let Fault::Cut(name, cut) = fault else { return None };
            let (sides, one_way) = cut.groups();
            let ids = |side: &Vec<usize>| text::ids(side.iter().map(|&slot| scenario.roster.id(slot)));
            let groups: Vec<String> = sides.iter().map(ids).collect();
            let healed = scenario.plan.iter().find(|(_, fault)| *fault == Fault::Heal(*name));
            let groups = groups.join(if one_way { ", unheard by " } else { " | " });
            Some((groups, *at, healed.map(|(to, _)| *to)))
        };
        CutNames::new(scenario.plan.iter().filter_map(cut).collect())
    }

    /// Takes the name, start and end of each cut, in the planned order.
    fn new(mut cuts: Vec<(String, Time, Option<Time>)>) -> CutNames {
        // Both sorts are stable: the planned order decides between equal times.
        let mut heals: Vec<(Time, (Time, String))> =
            cuts.iter().filter_map(|(name, from, to)| Some(((*to)?, (*from, name.clone())))).collect();
        heals.sort_by_key(|&(to, _)| to);
        cuts.sort_by_key(|&(_, from, _)| from);
        let names = cuts.into_iter().map(|(name, ..)| name).collect();
        CutNames { cuts: names, heals: heals.into_iter().map(|(_, name)| name).collect() }
    }

    /// The name of the cut that has just started.
    pub(crate) fn cut(&mut self) -> String {
        self.cuts.pop_front().unwrap_or_default()
    }

    /// The name of the cut that has just ended.
    pub(crate) fn heal(&mut self) -> String {
        self.heals.pop_front().unwrap_or_default().1
    }

    /// Ends all cuts. Cuts that start at this time come later.
    pub(crate) fn heal_all(&mut self, at: Time) {
        self.heals.retain(|(from, _)| *from >= at);
    }
}

/// An observer with two handles: one for the world, and one to read the results after the run.
pub(crate) struct SharedObserver<T>(Rc<RefCell<T>>);

impl<T> SharedObserver<T> {
    pub(crate) fn new(observer: T) -> SharedObserver<T> {
        SharedObserver(Rc::new(RefCell::new(observer)))
    }

    pub(crate) fn handle(&self) -> SharedObserver<T> {
        SharedObserver(Rc::clone(&self.0))
    }

    /// The observer, after the world is dropped.
    pub(crate) fn into_inner(self) -> T {
        Rc::into_inner(self.0).expect("the world has dropped its handle").into_inner()
    }
}

impl<T: Observer> Observer for SharedObserver<T> {
    fn observe(&mut self, at: Time, event: TraceEvent<'_>) {
        self.0.borrow_mut().observe(at, event);
    }
}

/// Several observers at once.
#[derive(Default)]
pub(crate) struct ObserverList(pub(crate) Vec<Box<dyn Observer>>);

impl Observer for ObserverList {
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
        let mut cuts = CutNames::new(vec![
            ("late".into(), time("5"), Some(time("6"))),
            ("early".into(), time("1"), Some(time("9"))),
            ("lasting".into(), time("7"), None),
            ("second".into(), time("8"), Some(time("10"))),
            ("first".into(), time("7.5"), Some(time("10"))),
        ]);
        assert_eq!([(); 5].map(|()| cuts.cut()), ["early", "late", "lasting", "first", "second"]);
        let mut healed_all = cuts.clone();
        let healed = [(); 4].map(|()| cuts.heal());
        assert_eq!(healed, ["late", "early", "second", "first"], "equal times keep the planned order");
        healed_all.heal_all(time("8"));
        assert_eq!(
            [healed_all.heal(), healed_all.heal()],
            ["second", ""],
            "a cut that ended with all others does not end again"
        );
    }
}
