//! The analysis of Gupta, van Renesse and Birman (2000), section 4: lower bounds for a round.
//!
//! The paper's proofs are in a technical report. This module has the results as the paper prints them. K1 is the
//! expected number of members in the relay phase, K2 the expected number of those that do not fail in it.

use serde::Serialize;

/// The network and the group of a bound (section 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// N, the number of members: a real number, since the paper considers 10^39.
    pub nodes: f64,
    /// The probability that a member has another in its view: view_prob.
    pub view_prob: f64,
    /// The probability that a unicast is lost: p_ucastl.
    pub ucast_loss: f64,
    /// The probability that a multicast misses a member: p_mcastl.
    pub mcast_loss: f64,
    /// The probability that a member fails during a round: p_fail.
    pub fail: f64,
}

impl Setting {
    /// The setting of Figure 4.
    pub const FIGURE_4: Setting =
        Setting { nodes: 10_000.0, view_prob: 0.4, ucast_loss: 0.01, mcast_loss: 0.01, fail: 0.01 };

    /// K1, the expected number of relay members.
    pub fn k1(&self, k: f64) -> f64 {
        (1.0 - self.mcast_loss) * k
    }

    /// K2, the expected number of relay members that do not fail.
    pub fn k2(&self, k: f64) -> f64 {
        (1.0 - self.fail) * self.k1(k)
    }

    /// Theorem 1: the bounds of a round's events, each conditional on the events before it.
    pub fn round(&self, k: f64) -> Round {
        let (k1, k2) = (self.k1(k), self.k2(k));
        let strays = |k: f64| 2.0 * libm::sqrt(2.0 / (std::f64::consts::PI * k)) * libm::exp(-k / 8.0);
        // 1 - (the probability that a live member gets none of the K2/2 final multicasts), to the power of N. The
        // logarithm keeps precision, since N may exceed the reciprocal of the machine precision.
        let deaf = (1.0 - self.fail) * libm::pow(self.mcast_loss, k2 / 2.0);
        // Below K2 = 2 the printed exponents are negative and would give probabilities above one.
        let exponent = |value: f64| value.max(0.0);
        Round {
            e1: (1.0 - strays(k1) - strays(k2)).max(0.0),
            e2: libm::exp(-k2 / 2.0 * libm::pow(1.0 - self.view_prob, exponent(k2 / 2.0 - 1.0))),
            e3: (1.0 - self.fail) * libm::pow(1.0 - self.ucast_loss, exponent(1.5 * k2 - 1.0)),
            e4: if deaf >= 1.0 { 0.0 } else { libm::exp(self.nodes * libm::log1p(-deaf)) },
            e5: 1.0 - self.fail,
        }
    }

    /// Theorem 2: the lower bound of the probability that a failed round is followed by another.
    pub fn detection(&self, k: f64) -> f64 {
        let hears_all = (1.0 - self.fail) * libm::pow(1.0 - self.mcast_loss, 1.5 * self.k2(k));
        let none_detects =
            if hears_all >= 1.0 { 0.0 } else { libm::exp(self.nodes * libm::log1p(-hears_all)) };
        self.round(k).e1 * (1.0 - none_detects)
    }

    /// Theorem 3: the maximum number of unicasts of a round if E1 holds. Each of 3 K1/2 members may send the best
    /// choice of each to each (section 3.1, "O(m^3)").
    pub fn most_unicasts(&self, k: f64) -> f64 {
        let members = 1.5 * self.k1(k);
        members * members * members
    }

    /// Theorem 3: the maximum number of final multicasts of a round if E1 holds: one by each relay member.
    pub fn most_final_multicasts(&self, k: f64) -> f64 {
        1.5 * self.k1(k)
    }

    /// Section 4, after Theorem 1: the group size up to which the bound of E4 is close to one.
    pub fn largest_group(&self, k: f64) -> f64 {
        libm::pow(self.mcast_loss, -self.k2(k) / 2.0)
    }

    /// The lower bound of the probability that a strategy succeeds, if rounds behave as in Theorem 1 and failed
    /// rounds are followed by another as in Theorem 2. `ks` are the K of the rounds.
    pub fn strategy(&self, ks: &[f64]) -> f64 {
        let mut reached = 1.0;
        let mut success = 0.0;
        for &k in ks {
            let round = self.round(k).success();
            success += reached * round;
            reached *= (1.0 - round) * self.detection(k);
        }
        success
    }
}

/// Theorem 1: lower bounds of the events of a round, each conditional on the events before it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Round {
    /// K1/2 to 3 K1/2 members take part in the relay phase, and K2/2 to 3 K2/2 of them live to its end.
    pub e1: f64,
    /// The relay members form a connected relay graph.
    pub e2: f64,
    /// The relay members select the same leader.
    pub e3: f64,
    /// Every live member learns the leader.
    pub e4: f64,
    /// The leader does not fail.
    pub e5: f64,
}

impl Round {
    /// The product: the lower bound of the probability that the round succeeds.
    pub fn success(&self) -> f64 {
        self.e1 * self.e2 * self.e3 * self.e4 * self.e5
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peak(setting: &Setting) -> (f64, f64) {
        let ks = (5..=70).map(f64::from);
        ks.map(|k| (k, setting.round(k).success())).max_by(|a, b| a.1.total_cmp(&b.1)).unwrap()
    }

    /// "From Figure 4, this minimal protocol round success probability appears to peak at 0.6 for the
    /// above parameters."
    #[test]
    fn figure_4_the_product_peaks_near_six_tenths() {
        let (k, success) = peak(&Setting::FIGURE_4);
        assert!((0.55..0.65).contains(&success), "{success} at {k}");
        assert!((20.0..40.0).contains(&k));
    }

    /// "The quick convergence of Pr_lb[E1] and Pr_lb[E2|E1] to unity at small K (here ~ 40) is independent
    /// of the value of N."
    #[test]
    fn figure_4_e1_and_e2_are_near_one_by_40() {
        let round = Setting::FIGURE_4.round(40.0);
        assert!(round.e1 > 0.995 && round.e2 > 0.995, "{round:?}");
        let early = Setting::FIGURE_4.round(10.0);
        assert!(early.e1 < 0.8 && early.e2 < 0.7, "and not before: {early:?}");
        let larger = Setting { nodes: 1e12, ..Setting::FIGURE_4 }.round(40.0);
        assert_eq!((round.e1, round.e2, round.e3, round.e5), (larger.e1, larger.e2, larger.e3, larger.e5));
    }

    /// "… N << p_mcastl^(-K2/2), which, for K = 40, turns out as 10^39."
    #[test]
    fn at_40_the_group_may_have_10_to_the_39_members() {
        let largest = Setting::FIGURE_4.largest_group(40.0);
        assert!((1e39..1e40).contains(&largest), "{largest:e}");
        let e4 = |nodes| Setting { nodes, ..Setting::FIGURE_4 }.round(40.0).e4;
        assert!(e4(1e4) > 1.0 - 1e-12 && e4(largest / 1e3) > 0.998 && e4(largest * 1e2) < 1e-6);
    }

    /// The formulas of Theorem 1 by hand, at K = 20 in the setting of Figure 4: K1 = 19.8, K2 = 19.602.
    #[test]
    fn theorem_1_by_hand() {
        let round = Setting::FIGURE_4.round(20.0);
        let near = |value: f64, known: f64| assert!((value - known).abs() < 1e-6, "{value} is not {known}");
        // 2 sqrt(2 / (pi 19.8)) e^-2.475 = 0.030183 and 2 sqrt(2 / (pi 19.602)) e^-2.45025 = 0.031095
        near(round.e1, 0.938722);
        // exp(-9.801 * 0.6^8.801) = exp(-0.109340)
        near(round.e2, 0.896425);
        // 0.99 * 0.99^28.403 = 0.99^29.403
        near(round.e3, 0.744152);
        // 1 - 10,000 * 0.99 * 0.01^9.801, almost 1
        near(round.e4, 1.0);
        near(round.e5, 0.99);
        near(round.success(), round.e1 * round.e2 * round.e3 * round.e4 * 0.99);
    }

    /// Without failures, only the number of relay members and their views are random.
    #[test]
    fn without_faults_only_e1_and_e2_are_below_one() {
        let setting = Setting { view_prob: 1.0, ucast_loss: 0.0, mcast_loss: 0.0, fail: 0.0, nodes: 100.0 };
        let round = setting.round(10.0);
        assert_eq!((round.e2, round.e3, round.e4, round.e5), (1.0, 1.0, 1.0, 1.0));
        assert_eq!(round.success(), round.e1);
        assert_eq!((setting.k1(10.0), setting.k2(10.0)), (10.0, 10.0));
    }

    /// "… with K fixed so that the term Pr_lb[E1] is arbitrarily close to unity, the probability of
    /// detection of incorrect election in a round of the presented protocol goes to unity as N tends to
    /// infinity."
    #[test]
    fn theorem_2_detection_goes_to_one_with_the_group() {
        let detection = |nodes, k| Setting { nodes, mcast_loss: 0.2, ..Setting::FIGURE_4 }.detection(k);
        let few: Vec<f64> = [1e1, 1e4, 1e7, 1e10].map(|nodes| detection(nodes, 60.0)).to_vec();
        assert!(few.is_sorted() && few[0] < 0.1, "{few:?}");
        assert!(detection(1e12, 60.0) > 0.998);
    }

    #[test]
    fn theorem_3_bounds_grow_cubically_and_linearly() {
        let setting = Setting::FIGURE_4;
        let ratio = |of: &dyn Fn(f64) -> f64| of(28.0) / of(14.0);
        assert!((ratio(&|k| setting.most_unicasts(k)) - 8.0).abs() < 1e-9);
        assert!((ratio(&|k| setting.most_final_multicasts(k)) - 2.0).abs() < 1e-9);
    }

    /// One round is Theorem 1. A second round can only help, and by at most the probability of failure.
    #[test]
    fn a_second_round_helps_by_at_most_the_failure_probability() {
        let setting = Setting::FIGURE_4;
        let one = setting.strategy(&[30.0]);
        assert_eq!(one, setting.round(30.0).success());
        let two = setting.strategy(&[30.0, 30.0]);
        assert!((two - (one + (1.0 - one) * setting.detection(30.0) * one)).abs() < 1e-12);
        assert!(two > one && two < 1.0);
    }

    #[test]
    fn bounds_are_probabilities() {
        for loss in [0.0, 0.001, 0.3, 0.9, 1.0] {
            for fail in [0.0, 0.01, 0.5] {
                let setting = Setting { ucast_loss: loss, mcast_loss: loss, fail, ..Setting::FIGURE_4 };
                for k in [1.0, 7.0, 56.0, 1000.0] {
                    let round = setting.round(k);
                    let all = [round.e1, round.e2, round.e3, round.e4, round.e5, round.success()];
                    for value in all.into_iter().chain([setting.detection(k), setting.strategy(&[k, k])]) {
                        assert!((0.0..=1.0).contains(&value), "{setting:?} {k}: {round:?} {value}");
                    }
                }
            }
        }
    }
}
