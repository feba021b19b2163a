//! Effects of a process that crashes in the middle of an input.

use suffrage_core::{Announcement, Effects, NodeId, Process, Rng, Span, Time};

use crate::CrashPoint;

/// The effects of an input in which the process may crash at some point. Effects after that point are dropped. The
/// process itself finishes the input, and is then replaced.
pub(crate) struct CrashableEffects<'e, P: Process> {
    effects: &'e mut (dyn Effects<P> + 'e),
    point: Option<CrashPoint>,
    crashed: bool,
}

/// The process has crashed.
pub(crate) struct Crashed;

impl<'e, P: Process> CrashableEffects<'e, P> {
    pub(crate) fn new(effects: &'e mut (dyn Effects<P> + 'e), point: Option<CrashPoint>) -> Self {
        CrashableEffects { effects, point, crashed: false }
    }

    /// The wrapped effects, without a crash.
    pub(crate) fn effects(&mut self) -> &mut (dyn Effects<P> + 'e) {
        self.effects
    }

    /// The remaining crash point, or an error if the process has crashed.
    pub(crate) fn end(self) -> Result<Option<CrashPoint>, Crashed> {
        if self.crashed { Err(Crashed) } else { Ok(self.point) }
    }

    /// The wrapped effects for the next effect; none after the crash.
    fn next(&mut self) -> Option<&mut (dyn Effects<P> + 'e)> {
        match &mut self.point {
            Some(CrashPoint::Effects(0)) => self.crashed = true,
            Some(CrashPoint::Effects(left)) => *left -= 1,
            _ => {}
        }
        (!self.crashed).then_some(&mut *self.effects)
    }
}

impl<P: Process> Effects<P> for CrashableEffects<'_, P> {
    fn rng(&mut self) -> &mut Rng {
        self.effects.rng()
    }

    fn send(&mut self, to: NodeId, message: P::Message) {
        if let Some(effects) = self.next() {
            effects.send(to, message);
        }
    }

    fn multicast(&mut self, message: P::Message) {
        if let Some(effects) = self.next() {
            effects.multicast(message);
        }
    }

    fn set_timer(&mut self, timer: P::Timer, after: Span) {
        if let Some(effects) = self.next() {
            effects.set_timer(timer, after);
        }
    }

    fn cancel_timer(&mut self, timer: P::Timer) {
        if let Some(effects) = self.next() {
            effects.cancel_timer(timer);
        }
    }

    fn save(&mut self, state: P::Saved) {
        self.crashed |= self.point == Some(CrashPoint::BeforeSave);
        if let Some(effects) = self.next() {
            effects.save(state);
        }
        self.crashed |= self.point == Some(CrashPoint::AfterSave);
    }

    /// The points before and after a save are those of its beginning: [`World`](crate::World) draws what a crash during
    /// the save leaves on the disk.
    fn begin_save(&mut self, state: P::Saved) -> bool {
        self.crashed |= self.point == Some(CrashPoint::BeforeSave);
        let durable = self.next().is_none_or(|effects| effects.begin_save(state));
        self.crashed |= self.point == Some(CrashPoint::AfterSave);
        durable
    }

    fn announce(&mut self, announcement: Announcement) {
        if let Some(effects) = self.next() {
            effects.announce(announcement);
        }
    }

    fn lead_until(&mut self, end: Time) {
        if let Some(effects) = self.next() {
            effects.lead_until(end);
        }
    }

    fn announce_in(&mut self, election: usize, announcement: Announcement) {
        if let Some(effects) = self.next() {
            effects.announce_in(election, announcement);
        }
    }

    fn lead_until_in(&mut self, election: usize, end: Time) {
        if let Some(effects) = self.next() {
            effects.lead_until_in(election, end);
        }
    }

    fn suspect(&mut self, peer: NodeId) {
        if let Some(effects) = self.next() {
            effects.suspect(peer);
        }
    }

    fn restore(&mut self, peer: NodeId) {
        if let Some(effects) = self.next() {
            effects.restore(peer);
        }
    }
}
