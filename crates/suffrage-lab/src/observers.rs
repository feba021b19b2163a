//! Observers of a run: names of network cuts, shared observers, several observers at once.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;

use suffrage_core::{NodeId, Time};
use suffrage_sim::{Fault, Observer, Scenario, TraceEvent};

use suffrage_cli::text;

/// The groups that a cut separates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CutGroups {
    pub(crate) groups: Vec<Vec<NodeId>>,
    /// True if the first group cannot send to the second, and the second can send to the first.
    pub(crate) one_way: bool,
}

impl fmt::Display for CutGroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups: Vec<String> = self.groups.iter().map(|group| text::ids(group.iter().copied())).collect();
        f.write_str(&groups.join(if self.one_way { ", unheard by " } else { " | " }))
    }
}

/// The names of the network cuts of a run, in the order in which they start and end. The events of the simulator do
/// not name the cut.
#[derive(Clone, Debug, Default)]
pub(crate) struct CutNames {
    cuts: VecDeque<CutGroups>,
    /// The start of each cut and its name, in the order in which the cuts end.
    heals: VecDeque<(Time, CutGroups)>,
}

impl CutNames {
    /// The cuts of a scenario, named by their groups.
    pub(crate) fn of(scenario: &Scenario) -> CutNames {
        let cut = |(at, fault): &(Time, Fault)| {
            let Fault::Cut(name, cut) = fault else { return None };
            let (sides, one_way) = cut.groups();
            let ids = |side: &Vec<usize>| side.iter().map(|&slot| scenario.roster.id(slot)).collect();
            let groups = CutGroups { groups: sides.iter().map(ids).collect(), one_way };
            let healed = scenario.plan.iter().find(|(_, fault)| *fault == Fault::Heal(*name));
            Some((groups, *at, healed.map(|(to, _)| *to)))
        };
        CutNames::new(scenario.plan.iter().filter_map(cut).collect())
    }

    /// Takes the name, start and end of each cut, in the planned order.
    fn new(mut cuts: Vec<(CutGroups, Time, Option<Time>)>) -> CutNames {
        // Both sorts are stable: the planned order decides between equal times.
        let mut heals: Vec<(Time, (Time, CutGroups))> =
            cuts.iter().filter_map(|(name, from, to)| Some(((*to)?, (*from, name.clone())))).collect();
        heals.sort_by_key(|&(to, _)| to);
        cuts.sort_by_key(|&(_, from, _)| from);
        let names = cuts.into_iter().map(|(name, ..)| name).collect();
        CutNames { cuts: names, heals: heals.into_iter().map(|(_, name)| name).collect() }
    }

    /// The name of the cut that has just started.
    pub(crate) fn cut(&mut self) -> CutGroups {
        self.cuts.pop_front().unwrap_or_default()
    }

    /// The name of the cut that has just ended.
    pub(crate) fn heal(&mut self) -> CutGroups {
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

    /// A cut that this number identifies.
    fn numbered(number: u64) -> CutGroups {
        CutGroups { groups: vec![vec![NodeId(number)]], one_way: false }
    }

    #[test]
    fn cuts_are_named_in_order_of_time() {
        let time = |text: &str| text.parse().unwrap();
        let [late, early, lasting, second, first] = [1, 2, 3, 4, 5].map(numbered);
        let mut cuts = CutNames::new(vec![
            (late.clone(), time("5"), Some(time("6"))),
            (early.clone(), time("1"), Some(time("9"))),
            (lasting.clone(), time("7"), None),
            (second.clone(), time("8"), Some(time("10"))),
            (first.clone(), time("7.5"), Some(time("10"))),
        ]);
        let named = [(); 5].map(|()| cuts.cut());
        assert_eq!(named, [early.clone(), late.clone(), lasting, first.clone(), second.clone()]);
        let mut healed_all = cuts.clone();
        let healed = [(); 4].map(|()| cuts.heal());
        assert_eq!(healed, [late, early, second.clone(), first], "equal times keep the planned order");
        healed_all.heal_all(time("8"));
        assert_eq!(
            [healed_all.heal(), healed_all.heal()],
            [second, CutGroups::default()],
            "a cut that ended with all others does not end again"
        );
    }

    #[test]
    fn groups_are_written_as_in_reports() {
        let groups = vec![vec![NodeId(1), NodeId(2)], vec![NodeId(3)]];
        assert_eq!(CutGroups { groups: groups.clone(), one_way: false }.to_string(), "1 and 2 | 3");
        assert_eq!(CutGroups { groups, one_way: true }.to_string(), "1 and 2, unheard by 3");
    }
}
