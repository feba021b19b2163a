//! Random commands of applications to nodes in a torture.

use suffrage_core::{Attribute, CommandStorm, Span, Time};

use super::{MAX_ASKED, Options, TENTH, name};
use suffrage_lease::{Action, CandidateConfig, Command};

/// Draws commands at random moments, in one election or in all. At the end every node that got a command leaves all
/// elections and joins them again with its default configuration, some with a value.
pub(super) fn commands(options: &Options, storm: &mut CommandStorm<'_>) -> Vec<(Time, usize, Command)> {
    let mut generator = CommandGenerator { options, storm, commands: Vec::new() };
    if generator.storm.rng.chance(0.6) {
        for _ in 0..1 + generator.storm.rng.below(12) {
            generator.draw_command();
        }
        generator.rejoin_all();
    }
    generator.commands
}

struct CommandGenerator<'d, 'o> {
    options: &'d Options,
    storm: &'d mut CommandStorm<'o>,
    commands: Vec<(Time, usize, Command)>,
}

impl CommandGenerator<'_, '_> {
    fn below(&mut self, bound: u64) -> u64 {
        self.storm.rng.below(bound)
    }

    /// A random moment of the storm.
    fn moment(&mut self) -> Time {
        let tenths = self.storm.end.as_nanos() / TENTH;
        Time::from_nanos(self.below(tenths.max(1)) * TENTH)
    }

    /// A random moment up to two leases later, but before the end.
    fn later(&mut self, at: Time) -> Time {
        let lease = self.options.timings(self.storm.delay).ttl;
        let tenths = self.below(1 + 2 * lease.as_nanos() / TENTH);
        let last = Time::from_nanos(self.storm.end.as_nanos().saturating_sub(2 * TENTH));
        (at + Span::from_nanos(tenths * TENTH)).min(last)
    }

    fn slot(&mut self) -> usize {
        self.below(self.storm.roster.len() as u64) as usize
    }

    /// Adds a command to one node, in one election or in all.
    fn push(&mut self, at: Time, slot: usize, election: Option<usize>, action: Action) {
        let command = match election {
            Some(election) => action.in_election(name(election)),
            None => action.in_all(),
        };
        self.commands.push((at, slot, command));
    }

    fn draw_command(&mut self) {
        let (at, slot) = (self.moment(), self.slot());
        let election = self.below(self.options.names as u64) as usize;
        let one = self.storm.rng.chance(0.5).then_some(election);
        let later = self.later(at);
        let rank = self.below(9) as Attribute - 4;
        match self.below(15) {
            13 | 14 => {
                let number = self.below(9) as u32;
                self.push(at, slot, one, Action::Value(number));
                self.push(later, slot, one, Action::Value(number + 1));
            }
            10 => self.push(at, slot, one, Action::Move(None)),
            11 => {
                let to = self.slot();
                self.push(at, slot, one, Action::Move(Some(self.storm.roster.id(to))));
            }
            12 => {
                // The work of an application has ended by itself.
                self.push(at, slot, one, Action::Release(None));
                self.push(later, slot, one, Action::Stand { once: false });
            }
            0 => {
                self.push(at, slot, one, Action::Withdraw);
                let once = self.storm.rng.chance(0.5);
                self.push(later, slot, one, Action::Stand { once });
            }
            1 => {
                self.push(at, slot, one, Action::Health(false));
                self.push(later, slot, one, Action::Health(true));
            }
            2 => self.push(at, slot, one, Action::Rank(rank)),
            3 => {
                let to = self.slot();
                self.push(at, slot, one, Action::Transfer(self.storm.roster.id(to)));
            }
            4 => self.push(at, slot, one, Action::Resign),
            5 => {
                self.push(at, slot, one, Action::Pin(true));
                self.push(later, slot, one, Action::Pin(false));
            }
            6 => {
                self.push(at, slot, one, Action::Leave);
                self.push(later, slot, one, Action::Join(None));
            }
            7 => {
                // An application that has resigned may want to lead again at once.
                self.push(at, slot, one, Action::Resign);
                self.push(later, slot, one, Action::Campaign);
            }
            _ => {
                let config = self.config(rank);
                self.push(at, slot, Some(election), Action::Leave);
                self.push(later, slot, Some(election), Action::Join(Some(config)));
                let soon = self.later(later);
                self.push(soon, slot, Some(election), Action::Stand { once: false });
            }
        }
    }

    /// A random configuration: a ttl that voters may not grant, another rank, sometimes fail-back, and sometimes a stop
    /// margin.
    fn config(&mut self, rank: Attribute) -> CandidateConfig {
        let timings = self.options.timings(self.storm.delay);
        let halves = 1 + self.below(2 * MAX_ASKED);
        let config = CandidateConfig {
            ttl: Span::from_nanos(timings.ttl.as_nanos() / 2 * halves / TENTH * TENTH),
            attribute: rank,
            failback: self.storm.rng.chance(0.3).then_some(timings.ttl),
            standing: self.storm.rng.chance(0.5),
            stop_margin: Span::ZERO,
        };
        let engine = self.options.engine_config(self.storm.delay, Vec::new(), false);
        let tenths = config.longest_margin(&engine).as_nanos() / TENTH;
        let margin = if self.storm.rng.chance(0.5) { self.below(1 + tenths) } else { 0 };
        CandidateConfig { stop_margin: Span::from_nanos(margin * TENTH), ..config }
    }

    fn rejoin_all(&mut self) {
        let end = self.storm.end;
        let before = Time::from_nanos(end.as_nanos().saturating_sub(TENTH));
        let mut slots: Vec<usize> = self.commands.iter().map(|&(_, slot, _)| slot).collect();
        slots.sort_unstable();
        slots.dedup();
        for slot in slots {
            self.push(before, slot, None, Action::Leave);
            self.push(end, slot, None, Action::Join(None));
            if self.storm.rng.chance(0.5) {
                let number = 10 + self.below(9) as u32;
                self.push(end, slot, None, Action::Value(number));
                // A leader changes its value after the last fault, too.
                let ttl = self.options.timings(self.storm.delay).ttl.as_nanos() / TENTH * TENTH;
                self.push(end + Span::from_nanos(2 * ttl), slot, None, Action::Value(number + 1));
            }
        }
    }
}
