//! `suffrage-lab plan --algorithm randomized`: rounds and mediators for a target probability of success.

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

/// The plan, its check by simulation, and the comparison with gupta.
#[derive(Debug, Serialize)]
struct PlanReport {
    algorithm: &'static str,
    mode: &'static str,
    fail: f64,
    target: f64,
    plan: Plan,
    /// All messages, including the announcement.
    sent: f64,
    checked: Checked,
    gupta: Option<GuptaPlan>,
    /// The algorithm with fewer messages, of those that reach the target.
    cheaper: Option<&'static str>,
}

/// The plan of gupta for the same target.
#[derive(Debug, Serialize)]
struct GuptaPlan {
    first_k: u32,
    max_rounds: u8,
    reaches: Reach,
    unicasts: f64,
    multicasts: f64,
    /// All messages. A multicast counts once per addressee.
    sent: f64,
}

pub(crate) fn execute(flags: &Flags, console: &mut Console<'_>) -> Result<u8, Error> {
    let report = flags.plan_report(console.err_is_terminal);
    let text = if flags.json { text::json(&report) } else { report.text() };
    console.out.write_all(text.as_bytes())?;
    Ok(u8::from(!report.plan.reaches))
}

impl Flags {
    fn plan_report(&self, show_progress: bool) -> PlanReport {
        let (mode, mode_name) = match self.mode {
            Clock::Sync => (Mode::Sync, "sync"),
            Clock::Async => (Mode::Async, "async"),
        };
        let nodes = self.nodes as u64;
        let question =
            Question { nodes, contenders: self.contenders, mode, fail: self.fail, target: self.target };
        let plan = question.plan();
        // The smaller group has another plan: the check is of the calculation, not of this plan.
        let small = Question { nodes: self.nodes.min(self.simulated_nodes) as u64, ..question };
        let small_plan = small.plan();
        let study = small.study(&small_plan, self.runs, self.seed);
        let checked =
            Checked::of(small_plan, self.runs, &reproduce::measure(&study, self.jobs, show_progress));
        let sent = plan.messages.total() + (nodes - 1) as f64;
        let gupta = self.gupta_plan(show_progress);
        let reached = |gupta: &GuptaPlan| matches!(gupta.reaches, Reach::Yes | Reach::Likely);
        let cheaper = match (plan.reaches, gupta.as_ref().filter(|gupta| reached(gupta))) {
            (true, Some(gupta)) if gupta.sent < sent => Some("gupta"),
            (true, _) => Some("randomized"),
            (false, gupta) => gupta.map(|_| "gupta"),
        };
        let (fail, target) = (self.fail, self.target);
        PlanReport {
            algorithm: "randomized",
            mode: mode_name,
            fail,
            target,
            plan,
            sent,
            checked,
            gupta,
            cheaper,
        }
    }

    /// The plan of gupta in a network without losses and with complete views, which randomized assumes.
    fn gupta_plan(&self, show_progress: bool) -> Option<GuptaPlan> {
        let nodes = self.nodes.min(self.simulated_nodes) as f64;
        let setting = Setting { nodes, view_prob: 1.0, ucast_loss: 0.0, mcast_loss: 0.0, fail: self.fail };
        let mut search = Search::new(setting, self.target, self.max_rounds, self.runs, self.seed);
        while let Some(study) = search.next() {
            search.record(&reproduce::measure(&study, self.jobs, show_progress));
        }
        let found = search.answer()?;
        let mean = |name: &str| found.figures.mean(name).map_or(0.0, |mean| mean.mean);
        let (unicasts, multicasts) = (mean("unicasts"), mean("multicasts"));
        Some(GuptaPlan {
            first_k: found.strategy.first_k,
            max_rounds: found.strategy.max_rounds,
            reaches: found.reaches,
            unicasts,
            multicasts,
            // The counts do not depend on the size of the group, but each multicast reaches the whole group.
            sent: unicasts + multicasts * (self.nodes - 1) as f64,
        })
    }
}

impl PlanReport {
    fn text(&self) -> String {
        let plan = &self.plan;
        let mut text = format!(
            "{} processes, {} contenders, {}; {} of the processes have crashed. Target: exactly one winner in {} of\n\
             elections, for any number of contenders.\n\n",
            plan.nodes, plan.contenders, self.mode, self.fail, self.target
        );
        let mut line = |name: &str, value: String| text += &format!("  {name:<22} {value}\n");
        if !plan.reaches {
            line("cannot be reached", format!("the best plan guarantees only {}", number(plan.success)));
        }
        line("rounds", format!("{} in the first phase, one in the second", plan.rounds));
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
        line("success", format!("{} with the worst number of contenders", number(plan.success)));
        line("  two stop each other", number(plan.no_finalist_of_two));
        if self.fail > 0.0 {
            line("  one meets a crash", number(plan.single_contender_fails));
        }
        line("  two winners, at most", number(plan.two_winners));
        text += &self.check();
        text += &self.compare();
        text
    }

    fn check(&self) -> String {
        let Checked { nodes, runs, plan, messages, success, success_of_two } = &self.checked;
        format!(
            "\nChecked by simulation of {nodes} processes, with {} rounds, {runs} runs each\n  \
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
        let Some(gupta) = &self.gupta else {
            return "\nThe group is too small for gupta.\n".to_string();
        };
        let mut text = format!(
            "\nCompared with gupta, without losses and with complete views; a multicast counts once per addressee\n  \
             randomized             {}\n  gupta                  {}: {} unicasts and {} multicasts with first K = {}\n",
            number(self.sent),
            number(gupta.sent),
            number(gupta.unicasts),
            number(gupta.multicasts),
            gupta.first_k
        );
        text += &match self.cheaper {
            Some(name) => {
                let (few, many) = (self.sent.min(gupta.sent), self.sent.max(gupta.sent));
                match (matches!(gupta.reaches, Reach::Yes | Reach::Likely), self.plan.reaches) {
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
        false => format!(
            "{} in the rounds of the first phase, {} in the second phase",
            rounds.join(", "),
            plan.quorum
        ),
    }
}
