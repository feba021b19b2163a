//! An overlay network: neighbours of each process, and random walks over the edges that sample other processes.
//!
//! Ramanathan et al. 2007, sections 6 and 7: "the degree distribution of the processes follows a power-law
//! distribution. To generate the network, we first generate the degrees of the processes according to the
//! power-law distribution with power-law parameter alpha = 0.8 and then connect the processes randomly."
//!
//! Interpretation: alpha is the exponent of degree against rank, as in the measurements of the Internet that such
//! networks are modelled on. The r-th of the processes by degree has about `r^-alpha` times the neighbours of the
//! first. As a distribution that is `P(degree >= k) ~ k^(-1/alpha)`, a density with exponent `1 + 1/alpha`, 2.25 for
//! 0.8. Every process has at least three neighbours, so that the network is connected with high probability. Any
//! remaining component is joined to the rest by one edge.

use crate::Rng;

/// The minimum degree. With three neighbours each, a random network is almost surely connected.
const MIN_DEGREE: u32 = 3;

/// A graph of processes, identified by slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlay {
    /// The index of each process's first neighbour, and at the end the number of all neighbours.
    starts: Vec<u32>,
    neighbours: Vec<u32>,
}

/// The result of a random walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// The slot at the end of the walk.
    pub end: usize,
    /// The number of edges of the walk. A step that stays at its process costs no message.
    pub hops: u32,
}

impl Overlay {
    /// A graph with power-law degrees, determined by the seed.
    ///
    /// # Panics
    /// If there are 2^31 processes or more.
    pub fn power_law(count: usize, alpha: f64, seed: u64) -> Overlay {
        assert!(count < 1 << 31, "a slot has 31 bits");
        let mut rng = Rng::new(crate::Hash::new(seed).pair(count as u64, alpha.to_bits()));
        let most = count.saturating_sub(1) as f64;
        let mut stubs = Vec::new();
        for slot in 0..count as u32 {
            // Uniform in (0, 1], so that the power is finite.
            let degree = f64::from(MIN_DEGREE) * libm::pow(1.0 - rng.unit(), -alpha);
            stubs.extend(std::iter::repeat_n(slot, degree.min(most) as usize));
        }
        rng.shuffle(&mut stubs);
        let mut edges = Vec::with_capacity(stubs.len());
        for pair in stubs.chunks_exact(2).filter(|pair| pair[0] != pair[1]) {
            edges.push((pair[0], pair[1]));
            edges.push((pair[1], pair[0]));
        }
        let overlay = Overlay::of(count, edges);
        overlay.connected(&mut rng)
    }

    /// The graph with these edges. Each edge is given in both directions; duplicates count once.
    fn of(count: usize, mut edges: Vec<(u32, u32)>) -> Overlay {
        edges.sort_unstable();
        edges.dedup();
        let mut starts = vec![0u32; count + 1];
        edges.iter().for_each(|&(from, _)| starts[from as usize + 1] += 1);
        for slot in 0..count {
            starts[slot + 1] += starts[slot];
        }
        Overlay { starts, neighbours: edges.into_iter().map(|(_, to)| to).collect() }
    }

    /// The same graph with every disconnected component joined to the rest by one edge.
    fn connected(self, rng: &mut Rng) -> Overlay {
        let count = self.len();
        let mut seen = vec![false; count];
        let mut joins = Vec::new();
        let mut stack = Vec::new();
        for slot in 0..count {
            if std::mem::replace(&mut seen[slot], true) {
                continue;
            }
            if slot > 0 {
                let other = rng.below(slot as u64) as u32;
                joins.extend([(slot as u32, other), (other, slot as u32)]);
            }
            stack.push(slot);
            while let Some(slot) = stack.pop() {
                for &next in self.neighbours(slot) {
                    if !std::mem::replace(&mut seen[next as usize], true) {
                        stack.push(next as usize);
                    }
                }
            }
        }
        if joins.is_empty() {
            return self;
        }
        let pairs = |slot| self.neighbours(slot).iter().map(move |&to| (slot as u32, to));
        joins.extend((0..count).flat_map(pairs));
        Overlay::of(count, joins)
    }

    /// The number of processes.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns whether there are no processes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The neighbours of a process.
    #[inline]
    pub fn neighbours(&self, slot: usize) -> &[u32] {
        &self.neighbours[self.starts[slot] as usize..self.starts[slot + 1] as usize]
    }

    /// The number of neighbours of a process.
    #[inline]
    pub fn degree(&self, slot: usize) -> usize {
        self.neighbours(slot).len()
    }

    /// The number of steps after which the end of a Metropolis-Hastings walk hardly depends on its start: a multiple
    /// of the logarithm of the number of processes, as in any random network. The multiple comes from measurement
    /// (`tests/randomized/sampling.rs`).
    pub fn mixing_steps(&self) -> u32 {
        (12.0 * libm::log2(self.len().max(2) as f64)).ceil() as u32
    }

    /// A Metropolis-Hastings walk. A step goes to a uniformly chosen neighbour with probability `min(1, own degree /
    /// its degree)`, and otherwise stays. The stationary distribution is uniform.
    pub fn walk(&self, start: usize, steps: u32, rng: &mut Rng) -> Walk {
        let mut walked = Walk { end: start, hops: 0 };
        for _ in 0..steps {
            let neighbours = self.neighbours(walked.end);
            let Some(&next) = rng.pick(neighbours) else { break };
            let (own, other) = (neighbours.len() as u64, self.degree(next as usize) as u64);
            if own >= other || rng.below(other) < own {
                walked = Walk { end: next as usize, hops: walked.hops + 1 };
            }
        }
        walked
    }

    /// A simple random walk: each step goes to a uniformly chosen neighbour. The stationary distribution is
    /// proportional to the degrees.
    pub fn naive_walk(&self, start: usize, steps: u32, rng: &mut Rng) -> Walk {
        let mut walked = Walk { end: start, hops: 0 };
        for _ in 0..steps {
            let Some(&next) = rng.pick(self.neighbours(walked.end)) else { break };
            walked = Walk { end: next as usize, hops: walked.hops + 1 };
        }
        walked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_symmetric_and_the_graph_is_connected() {
        for (count, seed) in [(1, 0), (2, 0), (3, 1), (50, 2), (2_000, 3)] {
            let overlay = Overlay::power_law(count, 0.8, seed);
            assert_eq!(overlay.len(), count);
            let mut reached = vec![false; count];
            let mut stack = vec![0];
            while let Some(slot) = stack.pop() {
                if std::mem::replace(&mut reached[slot], true) {
                    continue;
                }
                for &next in overlay.neighbours(slot) {
                    assert_ne!(next as usize, slot);
                    assert!(overlay.neighbours(next as usize).contains(&(slot as u32)));
                    stack.push(next as usize);
                }
            }
            assert!(reached.iter().all(|&reached| reached), "{count}");
        }
    }

    #[test]
    fn disconnected_components_are_joined_to_the_rest() {
        let split = Overlay::of(4, vec![(0, 1), (1, 0), (2, 3), (3, 2)]);
        let connected = split.connected(&mut Rng::new(0));
        assert_eq!(connected.neighbours.len(), 6);
        assert_eq!(connected.degree(2), 2);
    }

    /// The number of processes with at least k neighbours falls as k^(-1/alpha): by 2^(-1.25) = 0.42 for every
    /// doubling of k. With 20,000 processes the counts are in the hundreds and more, so that three standard errors
    /// stay within a sixth. The seed is fixed.
    #[test]
    fn degrees_follow_the_power_law() {
        let overlay = Overlay::power_law(20_000, 0.8, 1);
        let at_least = |k| (0..20_000).filter(|&slot| overlay.degree(slot) >= k).count() as f64;
        for k in [6, 12, 24] {
            let ratio = at_least(2 * k) / at_least(k);
            assert!((ratio / 0.4204 - 1.0).abs() < 0.17, "{k}: {ratio}");
        }
        assert!((0..20_000).filter(|&slot| overlay.degree(slot) < MIN_DEGREE as usize).count() < 400);
    }
}
