//! What those who watch a run have in common.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use election::Time;
use simulator::{Happening, Observer};

/// What to call the cuts of a run as they come and go: the simulator only says that there was one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cuts {
    cuts: VecDeque<String>,
    heals: VecDeque<String>,
}

impl Cuts {
    /// From each cut's name, its beginning and its end, in the order they were planned.
    pub(crate) fn new(mut cuts: Vec<(String, Time, Option<Time>)>) -> Cuts {
        cuts.sort_by_key(|&(_, from, _)| from);
        let names = cuts.iter().map(|(name, ..)| name.clone()).collect();
        let mut heals: Vec<(Time, String)> =
            cuts.into_iter().filter_map(|(name, _, to)| Some((to?, name))).collect();
        heals.sort_by_key(|&(to, _)| to);
        Cuts { cuts: names, heals: heals.into_iter().map(|(_, name)| name).collect() }
    }

    /// The name of the cut that has just been made.
    pub(crate) fn cut(&mut self) -> String {
        self.cuts.pop_front().unwrap_or_default()
    }

    /// The name of the cut that has just been healed.
    pub(crate) fn heal(&mut self) -> String {
        self.heals.pop_front().unwrap_or_default()
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
    fn observe(&mut self, at: Time, happening: Happening<'_>) {
        self.0.borrow_mut().observe(at, happening);
    }
}

/// Several observers at once.
#[derive(Default)]
pub(crate) struct Several(pub(crate) Vec<Box<dyn Observer>>);

impl Observer for Several {
    fn observe(&mut self, at: Time, happening: Happening<'_>) {
        self.0.iter_mut().for_each(|observer| observer.observe(at, happening));
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
        ]);
        assert_eq!([cuts.cut(), cuts.cut(), cuts.cut()], ["early", "late", "lasting"]);
        assert_eq!([cuts.heal(), cuts.heal()], ["late", "early"]);
    }
}
