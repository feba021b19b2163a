//! `suffrage-lab plan --algorithm randomized`: rounds and mediators for a wanted probability of success.

use serde::Serialize;
use suffrage_algorithms::randomized::options::Mode;
use suffrage_papers::gupta2000::bounds::Setting;
use suffrage_papers::gupta2000::planner::{Reach, Search};
use suffrage_papers::ramanathan2007::planner::{Checked, Plan, Question};
use suffrage_papers::report::{interval, number};

use crate::plan::{Clock, Flags};
use crate::reproduce;
use suffrage_cli::Error;
use suffrage_cli::{Console, text};

/// What is planned.
#[derive(Debug, Serialize)]
struct Answer {
    algorithm: &'static str,
    mode: &'static str,
    fail: f64,
    target: f64,
    plan: Plan,
    /// All messages, the announcement included.
    sent: f64,
    checked: Checked,
    gupta: Option<Rival>,
    /// The one with fewer messages, of those that reach the target.
    cheaper: Option<&'static str>,
}

/// What gupta would take.
#[derive(Debug, Serialize)]
struct Rival {
    first_k: u32,
    max_rounds: u8,
    reaches: Reach,
    unicasts: f64,
    multicasts: f64,
    /// All messages, a multicast counting for each addressee.
    sent: f64,
}

pub(crate) fn execute(flags: &Flags, console: &mut Console<'_>) -> Result<u8, Error> {
    let answer = flags.answer(console.err_is_terminal);
    let text = if flags.json { text::json(&answer) } else { answer.tell() };
    console.out.write_all(text.as_bytes())?;
    Ok(u8::from(!answer.plan.reaches))
}

impl Flags {
    fn answer(&self, watched: bool) -> Answer {
        let (mode, mode_name) = match self.mode {
            Clock::Sync => (Mode::Sync, "sync"),
            Clock::Async => (Mode::Async, "async"),
        };
        let nodes = self.nodes as u64;
        let question =
            Question { nodes, contenders: self.contenders, mode, fail: self.fail, target: self.target };
        let plan = question.plan();
        // Smaller groups have plans of their own: what is checked is the calculation.
        let small = Question { nodes: self.nodes.min(self.simulated_nodes) as u64, ..question };
        let small_plan = small.plan();
        let study = small.study(&small_plan, self.runs, self.seed);
        let checked = Checked::of(small_plan, self.runs, &reproduce::measure(&study, self.jobs, watched));
        let sent = plan.messages.total() + (nodes - 1) as f64;
        let gupta = self.rival(watched);
        let reached = |rival: &Rival| matches!(rival.reaches, Reach::Yes | Reach::Likely);
        let cheaper = match (plan.reaches, gupta.as_ref().filter(|rival| reached(rival))) {
            (true, Some(rival)) if rival.sent < sent => Some("gupta"),
            (true, _) => Some("randomized"),
            (false, rival) => rival.map(|_| "gupta"),
        };
        let (fail, target) = (self.fail, self.target);
        Answer { algorithm: "randomized", mode: mode_name, fail, target, plan, sent, checked, gupta, cheaper }
    }

    /// What gupta takes in a network without losses in which all know all, which is what randomized asks for.
    fn rival(&self, watched: bool) -> Option<Rival> {
        let nodes = self.nodes.min(self.simulated_nodes) as f64;
        let setting = Setting { nodes, view_prob: 1.0, ucast_loss: 0.0, mcast_loss: 0.0, fail: self.fail };
        let mut search = Search::new(setting, self.target, self.max_rounds, self.runs, self.seed);
        while let Some(study) = search.next() {
            search.record(&reproduce::measure(&study, self.jobs, watched));
        }
        let found = search.answer()?;
        let mean = |name: &str| found.figures.mean(name).map_or(0.0, |mean| mean.mean);
        let (unicasts, multicasts) = (mean("unicasts"), mean("multicasts"));
        Some(Rival {
            first_k: found.strategy.first_k,
            max_rounds: found.strategy.max_rounds,
            reaches: found.reaches,
            unicasts,
            multicasts,
            // Counts do not depend on the size of the group, but each multicast reaches all of it.
            sent: unicasts + multicasts * (self.nodes - 1) as f64,
        })
    }
}

impl Answer {
    fn tell(&self) -> String {
        let plan = &self.plan;
        let mut text = format!(
            "{} processes, {} of them contend, {}; {} of them are dead. Wanted: exactly one winner in {} of\n\
             elections, however many contend.\n\n",
            plan.nodes, plan.contenders, self.mode, self.fail, self.target
        );
        let mut line = |name: &str, value: String| text += &format!("  {name:<22} {value}\n");
        if !plan.reaches {
            line("cannot be reached", format!("the surest plan is sure of {} only", number(plan.success)));
        }
        line("rounds", format!("{} in the first phase, and one in the second", plan.rounds));
        line("mediators", mediators(plan));
        line("finalists", number(plan.finalists));
        line(
            "messages",
            format!(
                "{}: {} in the first phase, {} in the second; {} with the announcement",
                number(plan.messages.total()),
                number(plan.messages.first_phase),
                number(plan.messages.second_phase),
                number(self.sent)
            ),
        );
        line("success", format!("{} at the worst number of contenders", number(plan.success)));
        line("  two kill each other", number(plan.no_finalist_of_two));
        if self.fail > 0.0 {
            line("  one finds one dead", number(plan.nobody_alone));
        }
        line("  two winners, at most", number(plan.two_winners));
        text += &self.check();
        text += &self.compare();
        text
    }

    fn check(&self) -> String {
        let Checked { nodes, runs, plan, messages, success, success_of_two } = &self.checked;
        format!(
            "\nChecked by simulation of {nodes} processes, whose plan has {} rounds, {runs} runs each\n  \
             messages               {}; {} calculated\n  one winner             {}\n  \
             of two contenders      {}; {} calculated\n",
            plan.rounds,
            interval(*messages),
            number(plan.messages.total()),
            interval(*success),
            interval(*success_of_two),
            number(plan.success),
        )
    }

    fn compare(&self) -> String {
        let Some(rival) = &self.gupta else {
            return "\nThe group is too small for gupta.\n".to_string();
        };
        let mut text = format!(
            "\nAgainst gupta, with nothing lost and everybody known to all; a multicast counts for each addressee\n  \
             randomized             {}\n  gupta                  {}: {} unicasts and {} multicasts with first K = {}\n",
            number(self.sent),
            number(rival.sent),
            number(rival.unicasts),
            number(rival.multicasts),
            rival.first_k
        );
        text += &match self.cheaper {
            Some(name) => {
                let (few, many) = (self.sent.min(rival.sent), self.sent.max(rival.sent));
                match (matches!(rival.reaches, Reach::Yes | Reach::Likely), self.plan.reaches) {
                    (true, true) => {
                        format!("  {name} is cheaper, by {}%\n", text::number(percent(few, many)))
                    }
                    _ => format!("  only {name} reaches the target\n"),
                }
            }
            None => "  neither reaches the target\n".to_string(),
        };
        text
    }
}

fn percent(few: f64, many: f64) -> f64 {
    (100.0 * (1.0 - few / many)).round()
}

fn mediators(plan: &Plan) -> String {
    let rounds: Vec<String> = plan.mediators.iter().map(ToString::to_string).collect();
    match rounds.is_empty() {
        true => format!("{} in the second phase", plan.quorum),
        false => format!("{} in its rounds, {} in the second phase", rounds.join(", "), plan.quorum),
    }
}
